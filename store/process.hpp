// Tells whether the process that wrote its pid into a file (a lock) still lives. A pid alone is not enough: it may be
// of another machine, container or boot, or have been given to another process since.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sessiond::store {

// "<machine id>:<boot id>:<inode of the pid namespace>" of this process. Pids of two processes can be compared only
// when these are equal. The machine id is that of /etc/machine-id, or "-" when there is none.
const std::string& host_identity();

// Where a process ran, by the host_identity() that it wrote down.
enum class Host : std::uint8_t {
  here,          // in this pid namespace of this boot
  earlier_boot,  // on this machine before it was restarted: the process is gone
  elsewhere,     // on another machine, in another pid namespace, or unknown
};
// `local_disk`: only this machine writes the disk that has the file. Then a `host` without a machine id (0.1.0 wrote
// "<boot id>:<pid namespace>") and with another boot id is of an earlier boot of this machine.
Host where_ran(std::string_view host, bool local_disk);

// When this machine was started, in ns of the wall clock, for comparing with a file's ctime. The clock may have been
// set since. This is the earliest of several estimates, so that a file of this boot never counts as older.
std::int64_t boot_time_ns();

struct ProcessStatus {
  bool dead = false;            // there is no such process, or it is a zombie
  std::uint64_t starttime = 0;  // field 22 of /proc/<pid>/stat, clock ticks since boot; 0: unknown
};
ProcessStatus process_status(std::int64_t pid);

}  // namespace sessiond::store
