// The options of a stream, from the query: heartbeatMs (100..60000), replay (0..1000), ping=event. With poll=1 the
// answer is one page instead of a stream: waitMs (0..60000), limit (1..1000).
#pragma once

#include <cstdint>

#include "daemon/http/message.hpp"
#include "store/problem.hpp"

namespace sessiond::stream {

struct StreamOptions {
  std::int64_t heartbeat_ms = 15'000;
  std::uint64_t replay = 0;       // begin before the last n events that match
  bool ping_event = false;        // send keep-alives as events, for clients that cannot see comments
  std::int64_t wait_ms = 25'000;  // poll: how long to wait for the first event
  std::uint64_t limit = 500;      // poll: most events on a page
};

// bad_request when a value is malformed or out of range, or belongs to poll=1 and stands without it.
Result<StreamOptions> stream_options(const http::Request& request, std::int64_t default_heartbeat_ms);

}  // namespace sessiond::stream
