// Which process is meant by a pid that somebody wrote down: where it ran, when it began, whether it still lives.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sessiond {

// "<machine id>:<boot id>:<inode of the pid namespace>": pids of two processes can be compared only when theirs are
// equal. The machine id is /etc/machine-id, or "-" where a machine has none.
const std::string& host_identity();

// Where the process ran that wrote down `host`.
enum class Host : std::uint8_t {
  here,          // in this pid namespace of this boot
  earlier_boot,  // on this machine, which has been started since: the process is gone
  elsewhere,     // on another machine or in another pid namespace, or it cannot be told
};
// `local_disk`: the file lies on a disk that only this machine writes. A host without a machine id (0.1.0 wrote
// "<boot id>:<pid namespace>") and with another boot id is then this machine's.
Host where_ran(std::string_view host, bool local_disk);

// When this machine was started, in ns of the wall clock, to be compared with a file's ctime. The clock may have been
// set since: of all estimates this is the earliest, so that a file of this boot is never taken for an older one.
std::int64_t boot_time_ns();

struct ProcessStatus {
  bool dead = false;            // no such process, or a zombie
  std::uint64_t starttime = 0;  // field 22 of /proc/<pid>/stat, clock ticks since boot; 0 when it cannot be read
};
ProcessStatus process_status(std::int64_t pid);

}  // namespace sessiond
