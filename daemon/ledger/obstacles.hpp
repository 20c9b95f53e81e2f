// Finds obstacles in journal/: a folder or a link where one of the daemon's files should be, or a file where one of its
// folders should be. The daemon made none of them, so they are moved aside with their content, and the file counts as
// missing.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "store/problem.hpp"

namespace sessiond::ledger {

struct Obstacle {
  std::filesystem::path path{};
  std::string what{};  // "is a folder where a file should be"
};
// Segments are not looked at: the journal itself judges them. Blocks.
std::vector<Obstacle> find_obstacles(const std::filesystem::path& journal_dir);

}  // namespace sessiond::ledger
