// Any line can be viewed; what a view shows is JSON; an entry that is accepted is written as one line that is made
// again from its Message.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "store/json/raw_json.hpp"
#include "transcripts/entry.hpp"

using namespace sessiond;
using namespace sessiond::transcripts;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const View view : {View::full, View::chat, View::raw}) {
    const auto shown = view_entry(text, 7, view);
    if (shown && !json::check(*shown, {.max_depth = json::foreign_depth + 8})) std::abort();
  }
  if (!json::check(text, {.max_depth = 64, .unique_names = true, .utf8 = true})) return 0;
  const auto draft = parse_entry(text, "");
  if (!draft) return 0;
  const Written written =
      write_entry(*draft, draft->id.empty() ? "0123456789abcdef" : draft->id, "", 3, 1'795'298'400'000);
  if (written.line.find('\n') != written.line.size() - 1) std::abort();
  if (!json::check(written.line) || !json::check(written.message)) std::abort();
  if (written.exact && line_of(written.message, written.unstamped) != written.line) std::abort();
  return 0;
}
