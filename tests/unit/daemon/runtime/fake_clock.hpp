// Clocks that a test turns: they stand still otherwise.
#pragma once

#include <cstdint>

#include "daemon/runtime/clock.hpp"

namespace sessiond::testing {

struct FakeClock {
  std::int64_t steady = 1'000'000;
  std::int64_t wall = 1'795'298'400'000;

  FakeClock() = default;
  FakeClock(const FakeClock&) = delete;
  FakeClock& operator=(const FakeClock&) = delete;
  // Reads this clock, which must outlive it.
  runtime::Clock clock() {
    return {.steady_ms = [this] { return steady; }, .wall_ms = [this] { return wall; }, .longest_sleep_ms = 1};
  }
  void turn(std::int64_t ms) {
    steady += ms;
    wall += ms;
  }
};

}  // namespace sessiond::testing
