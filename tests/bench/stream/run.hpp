// One run of a plan, on one thread. Throws std::runtime_error when the run is worth nothing; lost, doubled and
// reordered events do not end it, they are counted.
#pragma once

#include <cstdint>

#include "tests/bench/histogram.hpp"
#include "tests/bench/stream/order.hpp"
#include "tests/bench/stream/plan.hpp"
#include "tests/bench/stream/usage.hpp"

namespace sessiond::bench::stream {

struct Outcome {
  // Of the measured window: from just before the first event is sent (replay: before the first reader is opened) until
  // every reader that does not stall has every event.
  double seconds = 0;
  std::uint64_t delivered = 0;
  std::uint64_t bytes = 0;  // received by the readers, with all framing of HTTP and SSE
  std::uint64_t server_cpu_ns = 0;
  std::uint64_t client_cpu_ns = 0;
  Histogram latency{};
  bool complete = false;  // the window ended because all was there

  // Of the whole run:
  Faults faults{};
  std::uint64_t published = 0;  // and acknowledged
  std::uint64_t unacknowledged = 0;
  std::uint64_t reconnects = 0;
  std::uint64_t retries = 0;
  double late_ms = 0;  // the most that a sending was behind its time
  double open_seconds = 0;
  Memory before{};           // without readers
  Memory after{};            // with all of them open, at the end of the window
  double drain_seconds = 0;  // until the readers that stalled had everything, too
};

Outcome run(const Plan& plan);

}  // namespace sessiond::bench::stream
