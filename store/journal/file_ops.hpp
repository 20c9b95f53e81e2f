// The system calls with which the journal writes. Tests replace them to make the disk fail at any call. Costs one
// indirect call for each write and sync of a batch.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <functional>

#include "store/files.hpp"

namespace sessiond::journal {

// Fills bytes [offset, end) of a file with zeros, durably. False: not, or only in part. Refuses when the disk has
// little room left, and on file systems that never overwrite in place, where zeros save nothing.
bool write_zeros(int fd, std::uint64_t offset, std::uint64_t end);

struct JournalFileOps {
  std::function<ssize_t(int fd, const void* bytes, std::size_t length, off_t offset)> write = ::pwrite;
  std::function<int(int fd)> sync = ::fdatasync;
  std::function<bool(int fd, std::uint64_t offset, std::uint64_t end)> write_zeros = journal::write_zeros;
  std::function<Result<store::Fd>(const std::filesystem::path&)> create = [](const std::filesystem::path& path) {
    return store::open_file(path, O_RDWR | O_CREAT | O_EXCL);
  };
  std::function<Result<void>(const std::filesystem::path&)> sync_dir = sessiond::store::sync_dir;
};

}  // namespace sessiond::journal
