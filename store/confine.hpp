// Keeps this process from following a symbolic link out of the state directory. Another user of the machine may turn a
// folder into such a link at any moment, so checking a path before it is opened is not enough: open_file() opens, and
// then asks the kernel where the file really is (/proc/self/fd). Links within the directory are followed, and the
// directory itself may be a link.
#pragma once

#include <filesystem>

#include "store/problem.hpp"

namespace sessiond::store {

// From now on open_file() refuses a path below `dir` whose file is not below `dir`. Other paths are not checked. ""
// removes the rule. Call it before other threads exist.
Result<void> confine_below(const std::filesystem::path& dir);

}  // namespace sessiond::store
