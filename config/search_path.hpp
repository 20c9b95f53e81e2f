// Where the index of the search may lie. Its file is removed and made anew at will, so it must lie over nothing else.
#pragma once

#include <string>
#include <string_view>

#include "config/config.hpp"

namespace sessiond::config {

// Returns the folder in the state directory that is the index's alone, with "/" at its end.
std::string search_folder(std::string_view state_dir);

// Takes "." and ".." out of search.path, and returns what is wrong with it; empty: nothing. Paths are absolute already
// (resolve_paths). Allowed are places in search_folder(), and outside of the state directory where no agent's store and
// no other file of the configuration is.
std::string check_search_path(Config& config);

}  // namespace sessiond::config
