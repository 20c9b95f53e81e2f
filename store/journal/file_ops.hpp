// The system calls with which the journal writes. Tests replace them to make the disk fail at any call. Costs one
// indirect call for each write and sync of a batch.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <functional>

#include "store/files.hpp"

namespace sessiond::journal {

struct JournalFileOps {
  std::function<ssize_t(int fd, const void* bytes, std::size_t length)> write = ::write;
  std::function<int(int fd)> sync = ::fdatasync;
  std::function<Result<store::Fd>(const std::filesystem::path&)> create = [](const std::filesystem::path& path) {
    return store::open_file(path, O_RDWR | O_APPEND | O_CREAT | O_EXCL);
  };
  std::function<Result<void>(const std::filesystem::path&)> sync_dir = sessiond::store::sync_dir;
};

}  // namespace sessiond::journal
