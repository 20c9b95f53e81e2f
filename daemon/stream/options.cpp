#include "daemon/stream/options.hpp"

#include "store/try.hpp"

namespace sessiond::stream {

Result<StreamOptions> stream_options(const http::Request& request, std::int64_t default_heartbeat_ms) {
  TRY(const auto heartbeat, http::query_int(request, "heartbeatMs", 100, 60'000));
  TRY(const auto replay, http::query_int(request, "replay", 0, 1000));
  const std::string* ping = request.query_value("ping");
  if (ping != nullptr && *ping != "event") return fail(Code::bad_request, "ping can only be \"event\"");
  const std::string* poll = request.query_value("poll");
  if (poll != nullptr && *poll != "1") return fail(Code::bad_request, "poll can only be 1");
  TRY(const auto wait, http::query_int(request, "waitMs", 0, 60'000));
  TRY(const auto limit, http::query_int(request, "limit", 1, 1000));
  if (poll == nullptr && (wait || limit)) return fail(Code::bad_request, "waitMs and limit belong to poll=1");
  return StreamOptions{.heartbeat_ms = heartbeat.value_or(default_heartbeat_ms),
                       .replay = static_cast<std::uint64_t>(replay.value_or(0)),
                       .ping_event = ping != nullptr,
                       .wait_ms = wait.value_or(StreamOptions{}.wait_ms),
                       .limit = static_cast<std::uint64_t>(limit.value_or(500))};
}

}  // namespace sessiond::stream
