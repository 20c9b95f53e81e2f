// Keeps this process from following a symbolic link out of the state directory. Another user of the machine may turn a
// folder into such a link at any moment, so checking a path before it is opened is not enough: open_file() opens, and
// then asks the kernel where the file really is (/proc/self/fd). Links within the directory are followed, and the
// directory itself may be a link.
#pragma once

#include <filesystem>

#include "store/problem.hpp"

namespace sessiond::store {

// From now on open_file() refuses a path below `dir` whose file is not below `dir`, in addition to what it was told
// before; of directories in one another the inner one counts. Other paths are not checked. "" removes all rules. Call
// it before other threads exist.
Result<void> confine_below(const std::filesystem::path& dir);

}  // namespace sessiond::store
