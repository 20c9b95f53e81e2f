// How a stream runs, as its query asks: heartbeatMs (100..60000), replay (0..1000), ping=event; with poll=1 as a page
// instead: waitMs (0..60000), limit (1..1000).
#pragma once

#include <cstdint>

#include "daemon/http/message.hpp"
#include "store/problem.hpp"

namespace sessiond {

struct StreamOptions {
  std::int64_t heartbeat_ms = 15'000;
  std::uint64_t replay = 0;  // start before the last so many events that match
  bool ping_event = false;   // keep-alives as events, for clients that cannot see comments
  bool poll = false;
  std::int64_t wait_ms = 25'000;  // poll: for the first event
  std::uint64_t limit = 500;      // poll: events a page
};

// bad_request for what is malformed, out of range, or no parameter of a stream.
Result<StreamOptions> stream_options(const Request& request, std::int64_t default_heartbeat_ms);

}  // namespace sessiond
