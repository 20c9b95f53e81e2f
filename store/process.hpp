// Which process is meant by a pid that somebody wrote down: this host's identity, when a process began, whether it
// still lives.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace sessiond {

// "<boot id>:<inode of the pid namespace>": pids of two processes can be compared only when theirs are equal.
const std::string& host_identity();

struct ProcessStatus {
  bool dead = false;            // no such process, or a zombie
  std::uint64_t starttime = 0;  // field 22 of /proc/<pid>/stat, clock ticks since boot; 0 when it cannot be read
};
ProcessStatus process_status(std::int64_t pid);

}  // namespace sessiond
