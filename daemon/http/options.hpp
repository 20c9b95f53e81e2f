// The settings of the HTTP server, all of which can be changed while it runs, and its counters. Counters are written by
// the network thread and read by any thread.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/http/request_reader.hpp"

namespace sessiond::http {

struct ServerOptions {
  ReadLimits read{};
  std::size_t connections = 10'000;                   // the unix socket has 64 more, so that an operator gets in
  std::size_t connections_per_address = 512;          // 0: no limit; an IPv6 network of 64 bits is one address
  std::uint64_t bytes_per_token = 32 << 20;           // of bodies being received and replies not read yet; 0: no limit
  bool count_loopback = false;                        // connections_per_address applies to loopback too, for tests
  std::chrono::milliseconds request_timeout{30'000};  // from a request's first byte until it is whole: 408
  std::chrono::milliseconds header_timeout{10'000};   // from a request's first byte until its head is whole: 408
  std::chrono::milliseconds idle_timeout{120'000};    // between requests
  std::chrono::milliseconds stall_timeout{60'000};    // the client reads nothing although there is something to read
  std::chrono::milliseconds stop_grace{10'000};       // for running requests after stop()
  std::vector<std::string> hosts{"localhost"};        // names served besides the addresses listened on; others: 421
};

struct Counters {
  // Upper bounds of the latency buckets in seconds; one more bucket has no bound. Latency is measured from the last
  // byte of a request until its handler returns.
  static constexpr std::array<double, 14> bounds{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                                 0.1,    0.25,  0.5,    1.0,   2.5,  5.0,   10.0};
  using Count = std::atomic<std::uint64_t>;
  Count connections_open{0};
  Count connections_total{0};
  Count connections_refused{0};  // over the limit
  Count streams_open{0};         // connections that streams have taken over; not in connections_open
  Count bytes_in{0};
  Count bytes_out{0};
  std::array<Count, 6> by_class{};  // [2]: replies with 2xx, …
  std::array<Count, bounds.size() + 1> latency{};
  Count latency_ns{0};  // sum

  void answered(int status, std::chrono::nanoseconds took);
};

// There is one writer, so a locked instruction is not needed.
inline void add(Counters::Count& count, std::uint64_t by) {
  count.store(count.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
}

}  // namespace sessiond::http
