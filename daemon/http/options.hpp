// What the HTTP server may be told (limits of API §1, all changeable while it runs) and what it counts. Counters are
// written by the network thread and read by any.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/http/request_reader.hpp"

namespace sessiond {

struct ServerOptions {
  ReadLimits read{};
  std::size_t connections = 10'000;           // over TCP; a few more over the unix socket, so that an operator gets in
  std::size_t connections_per_address = 512;  // 0: no limit; an IPv6 network of 64 bits is one address
  std::uint64_t bytes_per_token = 32 << 20;   // of bodies coming in and replies not taken; 0: no limit
  bool count_loopback = false;                // by that limit too; a test has no other address
  std::chrono::milliseconds request_timeout{30'000};  // from a request's first byte until it is whole: 408
  std::chrono::milliseconds header_timeout{10'000};   // from there until its head is: 408
  std::chrono::milliseconds idle_timeout{120'000};    // between requests
  std::chrono::milliseconds stall_timeout{60'000};    // bytes pending and the client takes none
  std::chrono::milliseconds stop_grace{10'000};       // what running requests get after stop()
  std::vector<std::string> hosts{"localhost"};        // names served (421), beside the addresses listened on
};

struct Counters {
  // Upper bounds of the latency buckets in seconds; the last bucket has none. Latency is from the last byte of a
  // request to the reply's first byte; streams are not in it.
  static constexpr std::array<double, 14> bounds{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                                 0.1,    0.25,  0.5,    1.0,   2.5,  5.0,   10.0};
  using Count = std::atomic<std::uint64_t>;
  Count connections_open{0};
  Count connections_total{0};
  Count connections_refused{0};  // over the limit
  Count streams_open{0};         // connections that streams have taken over, beside connections_open
  Count bytes_in{0};
  Count bytes_out{0};
  std::array<Count, 6> by_class{};  // [2]: replies with 2xx, …
  std::array<Count, bounds.size() + 1> latency{};
  Count latency_ns{0};  // sum

  void answered(int status, std::chrono::nanoseconds took);
};

// One writer: no need for a locked instruction.
inline void add(Counters::Count& count, std::uint64_t by) {
  count.store(count.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
}

}  // namespace sessiond
