// Tells whether a file is on a file system that other machines may write to.
#pragma once

#include <filesystem>
#include <string_view>

namespace sessiond::store {

// The name of the network file system ("NFS") that holds a path or an open file; "" for a local one. A path that cannot
// be examined counts as local, a descriptor that cannot be examined is on "unknown".
std::string_view network_file_system(const std::filesystem::path& path);
std::string_view network_file_system(int fd);

}  // namespace sessiond::store
