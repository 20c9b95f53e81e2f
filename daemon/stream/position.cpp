#include "daemon/stream/position.hpp"

#include <fmt/format.h>

#include <limits>

#include "store/json/raw_json.hpp"
#include "store/number.hpp"

namespace sessiond::stream {
namespace {

constexpr std::size_t epoch_size = 8;
constexpr auto last_seq = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());

Result<std::optional<Position>> read(std::string_view parameter, std::string_view text) {
  if (auto position = parse_position(text)) return position;
  return fail(Code::bad_request, fmt::format("{} is {}, which is not an event id (<epoch>-<seq>, like 3f9a1c02-1842)",
                                             parameter, json::quote(text.substr(0, 80))));
}

}  // namespace

std::string to_string(const Position& position) { return fmt::format("{}-{}", position.epoch, position.seq); }

std::optional<Position> parse_position(std::string_view text) {
  if (text.size() < epoch_size + 2 || text[epoch_size] != '-') return std::nullopt;
  const std::string_view epoch = text.substr(0, epoch_size);
  const std::string_view digits = text.substr(epoch_size + 1);
  if (epoch.find_first_not_of("0123456789abcdef") != epoch.npos) return std::nullopt;
  if (digits.front() == '0' && digits.size() > 1) return std::nullopt;
  const auto seq = store::parse_number<std::uint64_t>(digits);
  if (!seq || *seq > last_seq) return std::nullopt;
  return Position{.epoch = std::string(epoch), .seq = *seq};
}

std::optional<std::string_view> gap_reason(const Position& position, std::string_view epoch, std::uint64_t head) {
  if (position.epoch != epoch) return "epoch";
  if (position.seq > head) return "ahead";
  return std::nullopt;
}

std::string gap_data(std::string_view from, std::string_view to, std::string_view reason) {
  json::ObjectWriter out;
  out.string("from", from);
  out.string("to", to);
  out.string("reason", reason);
  out.boolean("resync", true);
  return out.text();
}

Result<std::optional<Position>> asked_position(const http::Request& request) {
  if (const std::string_view header = request.header("last-event-id"); !header.empty()) {
    return read("Last-Event-ID", header);
  }
  if (const std::string* after = request.query_value("after")) return read("after", *after);
  return std::nullopt;
}

}  // namespace sessiond::stream
