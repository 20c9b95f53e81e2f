#include "store/file_system.hpp"

#include <linux/magic.h>
#include <sys/vfs.h>

#include <array>
#include <cstdint>

namespace sessiond::store {
namespace {

struct NetworkKind {
  std::uint64_t magic;
  std::string_view name;
};
constexpr std::array network_kinds{
    NetworkKind{NFS_SUPER_MAGIC, "NFS"},   NetworkKind{SMB_SUPER_MAGIC, "SMB"}, NetworkKind{0xFF534D42, "CIFS"},
    NetworkKind{0xFE534D42, "SMB2"},       NetworkKind{V9FS_MAGIC, "9p"},       NetworkKind{AFS_SUPER_MAGIC, "AFS"},
    NetworkKind{CEPH_SUPER_MAGIC, "Ceph"}, NetworkKind{0x01161970, "GFS2"},     NetworkKind{0x7461636F, "OCFS2"},
    NetworkKind{0x0BD00BD0, "Lustre"},     NetworkKind{0x47504653, "GPFS"},     NetworkKind{0x786F4256, "vboxsf"},
    NetworkKind{FUSE_SUPER_MAGIC, "FUSE"}};

std::string_view name_of(const struct statfs& kind) {
  const auto magic = static_cast<std::uint64_t>(kind.f_type) & 0xFFFFFFFF;
  for (const NetworkKind& each : network_kinds)
    if (each.magic == magic) return each.name;
  return {};
}

}  // namespace

std::string_view network_file_system(const std::filesystem::path& path) {
  struct statfs kind{};
  return ::statfs(path.c_str(), &kind) == 0 ? name_of(kind) : std::string_view{};
}

std::string_view network_file_system(int fd) {
  struct statfs kind{};
  return ::fstatfs(fd, &kind) == 0 ? name_of(kind) : std::string_view("unknown");
}

}  // namespace sessiond::store
