#include "daemon/stream/frames.hpp"

#include <fmt/format.h>

#include "store/json/raw_json.hpp"

namespace sessiond::frames {
namespace {
constexpr std::string_view before_data = "\ndata: ";
constexpr std::string_view end_of_event = "\n\n";

// Takes the members out of a run's event that are the daemon's own (decide/events.hpp). Views `json` or `held`.
std::string_view without_own_members(std::string_view json, std::string& held) {
  const auto data = json::find(json, "data");
  if (!data) return json;
  json::Edit edit;
  for (const char* own : {"token", "readyAt", "ageCreatedAt", "leaseMs", "idleTimeoutMs", "origin", "inStep",
                          "collects", "texts", "deleted", "byRunner", "unlisted", "overflowTold", "overflow"})
    edit.remove(own);
  const auto begin = static_cast<std::size_t>(data->data() - json.data());
  held = json.substr(0, begin);
  held.append(json::apply(*data, edit)).append(json.substr(begin + data->size()));
  return held;
}
}  // namespace

std::string retry(std::int64_t ms) { return fmt::format("retry: {}\n\n", ms); }

std::string event(std::string_view id, std::string_view type, std::string_view data) {
  if (id.empty()) return fmt::format("event: {}\ndata: {}\n\n", type, data);
  return fmt::format("id: {}\nevent: {}\ndata: {}\n\n", id, type, data);
}

std::string position(std::string_view id) { return fmt::format("id: {}\n\n", id); }

std::string ping(bool as_event) { return as_event ? event({}, "ping", "{}") : ": ping\n\n"; }

std::string bye(std::int64_t retry_ms) { return event({}, "stream.bye", fmt::format(R"({{"retryMs":{}}})", retry_ms)); }

void append_event(std::string& out, std::string_view epoch, std::uint64_t seq, std::string_view type,
                  std::string_view json) {
  if (seq != 0) {
    const fmt::format_int digits(seq);
    out.append("id: ").append(epoch).append("-").append(digits.data(), digits.size()).append("\n");
  }
  std::string without, held;  // a foreign program may have written text that is not UTF-8
  if (type.starts_with("run.")) json = without_own_members(json, without);
  out.append("event: ").append(type).append(before_data).append(json::as_sent(json, held)).append(end_of_event);
}

std::string_view data_of(std::string_view event_frame) {
  event_frame.remove_prefix(event_frame.find(before_data) + before_data.size());
  event_frame.remove_suffix(end_of_event.size());
  return event_frame;
}

}  // namespace sessiond::frames
