// A folder or a link where one of our files in journal/ should be, or a file where one of our folders should be.
// Nothing of it is ours, so it is moved beside its place, content and all, and the file counts as missing.
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
// Segments are not among them: the journal itself judges what it needs. Blocks.
std::vector<Obstacle> find_obstacles(const std::filesystem::path& journal_dir);

}  // namespace sessiond::ledger
