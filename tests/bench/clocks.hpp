// Time and CPU time.
#pragma once

#include <cstdint>

namespace sessiond::bench {

std::uint64_t now_ns();         // monotonic
double own_cpu_s();             // of this process, user and system
double process_cpu_s(int pid);  // utime + stime of /proc/<pid>/stat; 0 when there is none (pid 0)

}  // namespace sessiond::bench
