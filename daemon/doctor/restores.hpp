// Finds directories that restores have left beside a state directory:
//   <state dir>.before-restore.<time>     the state before a restore; or, with a MANIFEST.json in it, the copy that a
//                                         killed restore was about to put in place
//   <state dir>.restore.<pid>.<uuid>.tmp  the copy that a killed restore was unpacking; or, with a sessiond.lock in it,
//                                         the state before the restore (0.1.0 moved it aside under this name)
#pragma once

#include <filesystem>
#include <vector>

#include "daemon/doctor/report.hpp"

namespace sessiond::doctor {

// Returns one finding for each; ok when there is nothing to do. Blocks.
std::vector<Finding> find_left_restores(const std::filesystem::path& state_dir);

}  // namespace sessiond::doctor
