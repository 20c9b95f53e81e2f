#include "tests/bench/stream/usage.hpp"

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "tests/bench/clocks.hpp"

namespace sessiond::bench::stream {
namespace {

std::uint64_t kilobytes(const std::string& path, const std::string& name) {
  std::ifstream in(path);
  for (std::string word; in >> word;) {
    std::uint64_t value = 0;
    if (word == name && in >> value) return value * 1024;
  }
  return 0;
}

}  // namespace

std::uint64_t cpu_ns(const std::vector<int>& pids) {
  std::uint64_t sum = 0;
  for (const int pid : pids) {
    std::uint64_t of_threads = 0;
    std::error_code error;
    for (const auto& thread : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task", error)) {
      std::ifstream in(thread.path() / "schedstat");
      std::uint64_t ran = 0;
      if (in >> ran) of_threads += ran;
    }
    sum += of_threads > 0 ? of_threads : static_cast<std::uint64_t>(process_cpu_s(pid) * 1e9);
  }
  return sum;
}

Memory memory(const std::vector<int>& pids) {
  Memory sum;
  for (const int pid : pids) {
    const std::string folder = "/proc/" + std::to_string(pid);
    sum.resident += kilobytes(folder + "/status", "VmRSS:");
    sum.proportional += kilobytes(folder + "/smaps_rollup", "Pss:");
  }
  return sum;
}

}  // namespace sessiond::bench::stream
