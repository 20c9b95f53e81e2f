// What a test tells the preloaded library, and what it is told: one page that both have mapped, so that a test can mend
// the disk or cut the power at any moment. The counters outlive the process, so a scenario may start the daemon several
// times. Environment: CRASH_SHIM_DIR (only files below it count), CRASH_SHIM_CONTROL (this page, at least
// sizeof(Control) bytes), CRASH_SHIM_KEEP (a directory on the same file system: what is overwritten or removed but may
// come back), CRASH_SHIM_TRACE (optional: a line a call).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace crash {

enum class Fault : std::uint64_t { none, no_space, io_error, interrupted, short_write };

// Which faults a call can give.
constexpr unsigned gives(Fault fault) { return 1U << static_cast<unsigned>(fault); }
constexpr unsigned any_error = gives(Fault::no_space) | gives(Fault::io_error);
constexpr unsigned may_interrupt = gives(Fault::interrupted);
constexpr unsigned may_shorten = gives(Fault::short_write);

using Word = std::atomic<std::uint64_t>;
struct Control {
  Word calls;     // counted so far
  Word fault_at;  // this call fails, or the first after it that can fail so; 0: none
  Word fault;     // how
  Word lasting;   // and so does every later one that can, until fault_at is 0
  Word faults;    // given so far
  Word cut_at;    // at this call the power goes; 0: never
  Word seed;      // of what it leaves on the disk
  Word quota;     // bytes that files may have in all; 0: no end
  Word used;      // bytes that they have
};
Control& control();

bool below(const std::string& path);     // absolute and normal
std::string absolute(const char* path);  // lexically
std::string path_of(int fd);             // the name it was opened under
void trace(std::uint64_t number, const char* name, const std::string& path, const char* outcome);

}  // namespace crash
