// What kind of file system a file lies on.
#pragma once

#include <filesystem>
#include <string_view>

namespace sessiond {

// The name of a file system that other machines may have mounted too ("NFS"); "" for a local one.
std::string_view network_file_system(const std::filesystem::path& path);
std::string_view network_file_system(int fd);

}  // namespace sessiond
