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
  const std::string zeros(end - offset, '\0');
  return store::write_all_at(fd, zeros, offset, "the journal") && ::fdatasync(fd) == 0;
}

}  // namespace sessiond::journal
