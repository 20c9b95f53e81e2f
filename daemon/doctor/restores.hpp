// What restores have left beside a state directory:
//   <state dir>.before-restore.<time>     what was there before a restore; with a MANIFEST.json in it the copy that a
//                                         killed restore was about to put in place
//   <state dir>.restore.<pid>.<uuid>.tmp  what a killed restore was unpacking; with a sessiond.lock in it what was
//   there
//                                         before (sessiond 0.1.0 moved it aside under this name first)
#pragma once

#include <filesystem>
#include <vector>

#include "daemon/doctor/report.hpp"

namespace sessiond {

// One finding each; ok where nothing is to be done. Blocks.
std::vector<Finding> find_left_restores(const std::filesystem::path& state_dir);

}  // namespace sessiond
