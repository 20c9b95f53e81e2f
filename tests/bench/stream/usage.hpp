// What the server uses.
#pragma once

#include <cstdint>
#include <vector>

namespace sessiond::bench::stream {

// CPU time of all threads, user and system, in nanoseconds (schedstat; utime + stime where the kernel has none).
std::uint64_t cpu_ns(const std::vector<int>& pids);

struct Memory {
  std::uint64_t resident = 0;      // VmRSS
  std::uint64_t proportional = 0;  // Pss: pages that processes share are counted once
};
Memory memory(const std::vector<int>& pids);

}  // namespace sessiond::bench::stream
