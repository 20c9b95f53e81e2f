// The state directory as a fence. A folder below it that is, or in the middle of a call becomes, a symbolic link out of
// it is followed by nobody: what open_file() has opened is asked where it really lies (/proc/self/fd), so there is no
// moment between the check and the use. Links that stay within are followed, and the directory itself may be one.
#pragma once

#include <filesystem>

#include "store/problem.hpp"

namespace sessiond {

// From now on, of this process: whatever has a path below `dir`, and only that, must lie below it. Called before there
// are other threads; "" takes it away.
Result<void> confine_below(const std::filesystem::path& dir);

}  // namespace sessiond
