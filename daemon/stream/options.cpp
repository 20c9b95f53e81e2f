#include "daemon/stream/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "store/raw_json.hpp"

namespace sessiond {
namespace {

constexpr std::array<std::string_view, 9> parameters{"types", "agent",  "keyPrefix",   "channel", "topic",
                                                     "after", "replay", "heartbeatMs", "ping"};

Result<std::optional<std::int64_t>> number(const Request& request, std::string_view parameter, std::int64_t least,
                                           std::int64_t most) {
  const std::string* text = request.query_value(parameter);
  if (text == nullptr) return std::nullopt;
  std::int64_t value = 0;
  const char* const end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, value);
  if (error == std::errc{} && stop == end && value >= least && value <= most) return value;
  return fail(Code::bad_request, fmt::format("{} must be a number from {} to {}", parameter, least, most));
}

}  // namespace

Result<StreamOptions> stream_options(const Request& request, std::int64_t default_heartbeat_ms) {
  for (const auto& [name, value] : request.query) {
    if (std::ranges::find(parameters, name) == parameters.end()) {
      return fail(Code::bad_request, fmt::format("{} is no query parameter here; known are {}", json::quote(name),
                                                 fmt::join(parameters, ", ")));
    }
  }
  const auto heartbeat = number(request, "heartbeatMs", 100, 60'000);
  if (!heartbeat) return std::unexpected(heartbeat.error());
  const auto replay = number(request, "replay", 0, 1000);
  if (!replay) return std::unexpected(replay.error());
  const std::string* ping = request.query_value("ping");
  if (ping != nullptr && *ping != "event") return fail(Code::bad_request, "ping can only be \"event\"");
  return StreamOptions{.heartbeat_ms = heartbeat->value_or(default_heartbeat_ms),
                       .replay = static_cast<std::uint64_t>(replay->value_or(0)),
                       .ping_event = ping != nullptr};
}

}  // namespace sessiond
