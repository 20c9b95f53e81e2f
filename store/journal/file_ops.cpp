#include "store/journal/file_ops.hpp"

#include <linux/magic.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <string>

namespace sessiond::journal {
namespace {

constexpr std::uint64_t room_kept = 16ULL << 20;  // the last of a disk is for what clients write

constexpr std::array<std::uint64_t, 4> copy_on_write{BTRFS_SUPER_MAGIC, F2FS_SUPER_MAGIC, 0x2FC12FC1 /* ZFS */,
                                                     0xCA451A4E /* bcachefs */};

bool worth_zeros(int fd) {
  struct statfs disk{};
  if (::fstatfs(fd, &disk) != 0) return false;
  const auto kind = static_cast<std::uint64_t>(disk.f_type) & 0xFFFFFFFF;
  if (std::ranges::find(copy_on_write, kind) != copy_on_write.end()) return false;
  return static_cast<std::uint64_t>(disk.f_bavail) * static_cast<std::uint64_t>(disk.f_bsize) >= room_kept;
}

}  // namespace

bool write_zeros(int fd, std::uint64_t offset, std::uint64_t end) {
  if (!worth_zeros(fd)) return false;
  static const std::string zeros(64ULL << 10, '\0');
  for (std::uint64_t at = offset; at < end; at += zeros.size()) {
    const std::string_view piece(zeros.data(), std::min<std::uint64_t>(zeros.size(), end - at));
    if (!store::write_all_at(fd, piece, at, "the journal")) return false;
  }
  return ::fdatasync(fd) == 0;
}

}  // namespace sessiond::journal
