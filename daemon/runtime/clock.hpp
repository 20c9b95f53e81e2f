// The clocks that the daemon's deadlines run on. Tests put clocks that they turn in their place. Thread: the loop.
#pragma once

#include <cstdint>
#include <functional>

#include "store/clock.hpp"

namespace sessiond::runtime {

struct Clock {
  std::function<std::int64_t()> steady_ms = store::steady_ms;  // is never set: for durations and deadlines
  std::function<std::int64_t()> wall_ms = store::unix_ms;
  std::int64_t longest_sleep_ms = 60'000;  // then it is read again, since a test may have turned it
};

}  // namespace sessiond::runtime
