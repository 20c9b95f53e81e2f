// The two clocks, in milliseconds. Any thread.
#pragma once

#include <chrono>
#include <cstdint>

namespace sessiond::store {

// The wall clock: milliseconds since 1970 (UTC). It may be set, forwards and backwards.
inline std::int64_t unix_ms() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

// A clock that is never set, for durations and deadlines. Its zero is arbitrary.
inline std::int64_t steady_ms() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count();
}

}  // namespace sessiond::store
