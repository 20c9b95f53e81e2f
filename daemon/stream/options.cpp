#include "daemon/stream/options.hpp"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "store/try.hpp"

namespace sessiond::stream {
namespace {

Result<std::optional<std::int64_t>> number(const http::Request& request, std::string_view parameter, std::int64_t least,
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

Result<StreamOptions> stream_options(const http::Request& request, std::int64_t default_heartbeat_ms) {
  TRY(const auto heartbeat, number(request, "heartbeatMs", 100, 60'000));
  TRY(const auto replay, number(request, "replay", 0, 1000));
  const std::string* ping = request.query_value("ping");
  if (ping != nullptr && *ping != "event") return fail(Code::bad_request, "ping can only be \"event\"");
  const std::string* poll = request.query_value("poll");
  if (poll != nullptr && *poll != "1") return fail(Code::bad_request, "poll can only be 1");
  TRY(const auto wait, number(request, "waitMs", 0, 60'000));
  TRY(const auto limit, number(request, "limit", 1, 1000));
  if (poll == nullptr && (wait || limit)) return fail(Code::bad_request, "waitMs and limit belong to poll=1");
  return StreamOptions{.heartbeat_ms = heartbeat.value_or(default_heartbeat_ms),
                       .replay = static_cast<std::uint64_t>(replay.value_or(0)),
                       .ping_event = ping != nullptr,
                       .wait_ms = wait.value_or(StreamOptions{}.wait_ms),
                       .limit = static_cast<std::uint64_t>(limit.value_or(500))};
}

}  // namespace sessiond::stream
