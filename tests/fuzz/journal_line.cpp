// Any line is a batch or is damaged; a batch that we make of any events is read again as the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "store/journal/event.hpp"
#include "store/journal/line.hpp"
#include "store/json/raw_json.hpp"

using namespace sessiond;
using namespace sessiond::journal;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto line = journal::parse_line(text)) journal::to_batch(*line, 0);
  if (const auto event = parse_event(std::string(text))) {
    if (event->data.size() > text.size()) std::abort();
  }
  if (text.find('\n') != std::string_view::npos || !json::check(text) || json::kind(text) != json::Kind::object)
    return 0;
  const Commit commit{.first_seq = 5,
                      .events = {std::make_shared<const std::string>(text)},
                      .answers = {},
                      .line_positions = {parse_line_position(text)}};
  std::string line;
  journal::build_line(line, {&commit, 1});
  const auto parsed = journal::parse_line(std::string_view(line).substr(0, line.size() - 1));
  if (!parsed || parsed->first != 5 || parsed->next != 6) std::abort();
  const StoredBatch batch = journal::to_batch(*parsed, 5);
  if (batch.line_positions != commit.line_positions) std::abort();
  if (batch.events.size() != 1 || json::compact(*batch.events.front()) != json::compact(text)) std::abort();
  return 0;
}
