// A closed loop of keep-alive connections on one thread: each sends its next request when it has the reply to the last.
// Any reply that is not a good one, and any connection that ends, fails the run.
#pragma once

#include <cstdint>
#include <expected>
#include <string>

#include "tests/bench/histogram.hpp"
#include "tests/bench/workload.hpp"

namespace sessiond::bench {

struct Plan {
  std::string scenario;
  Target target;
  std::size_t connections = 64;
  std::size_t sessions = 1;  // the connections are spread over so many
  double warmup_s = 0.5;
  double seconds = 3;
  std::uint64_t count = 0;  // > 0: exactly so many requests, numbered from 0, all of them measured
  std::uint64_t first_number = 0;
  int daemon_pid = 0;  // > 0: its CPU time is measured
};

struct Outcome {
  double seconds = 0;  // of the measured window, in which the following happened
  Histogram latency;
  double client_cpu_s = 0;
  double daemon_cpu_s = 0;
  std::uint64_t total = 0;  // good replies, those of the warm-up and the end too
};

std::expected<Outcome, std::string> run(const Plan& plan);

}  // namespace sessiond::bench
