#include "transcripts/unsynced_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <iterator>

#include "store/fault_point.hpp"
#include "store/files.hpp"
#include "store/try.hpp"
#include "transcripts/placing.hpp"

namespace sessiond::transcripts {
namespace {

Result<void> write_again(int fd, const std::string& file, const UnsyncedFiles::Written& written) {
  TRY(const auto status, store::status_of(fd, file));
  if (status.st_ino != written.inode || status.st_dev != written.device) return {};  // replaced by a foreign program
  for (const auto& [offset, bytes] : written.pieces) {
    if (offset > static_cast<std::uint64_t>(status.st_size)) continue;  // cut by a foreign program
    TRY(const auto standing, store::read_at(fd, offset, bytes.size(), file));
    if (!ours_or_hole(standing, bytes)) continue;  // a foreign program's lines
    TRY(store::write_all_at(fd, bytes, offset, file));
  }
  return {};
}

}  // namespace

UnsyncedFiles::Written& UnsyncedFiles::written(const std::string& file, dev_t device, ino_t inode) {
  Written& written = files_[file];
  if (written.inode != inode || written.device != device) written = {.device = device, .inode = inode};
  return written;
}

Result<void> UnsyncedFiles::sync_one(const std::string& file, Written& written, const Descriptor& descriptor) const {
  store::Fd reopened;
  int fd = written.lost ? -1 : descriptor(file);
  if (fd < 0) {
    // Removed or replaced by a foreign program: what we wrote is gone with the old file.
    const auto named = store::stat_within(state_dir_ / file);
    if (!named || named->st_ino != written.inode) return {};
    TRY(auto path, store::resolve_below(state_dir_, file));
    auto again = store::open_within(path, (written.lost ? O_RDWR : O_RDONLY) | O_NONBLOCK);
    if (!again && again.error().code == Code::not_found) return {};  // removed by a foreign program
    TRY(reopened, std::move(again));
    fd = reopened.get();
  }
  if (written.lost) TRY(write_again(fd, file, written));
  if (::fdatasync(fd) != 0) {
    written.lost = true;
    return io_fail("fsync", file);
  }
  store::fault_point("transcript.synced");
  return {};
}

Result<void> UnsyncedFiles::sync(std::string_view file, const Descriptor& descriptor) {
  const auto at = files_.find(file);
  if (at == files_.end()) return {};
  TRY(sync_one(at->first, at->second, descriptor));
  files_.erase(at);
  return {};
}

Result<void> UnsyncedFiles::sync(const Descriptor& descriptor) {
  Result<void> first;
  for (auto at = files_.begin(); at != files_.end();) {
    auto synced = sync_one(at->first, at->second, descriptor);
    if (!synced && first) first = synced;
    at = synced ? files_.erase(at) : std::next(at);
  }
  for (auto at = folders_.begin(); at != folders_.end();) {
    auto synced = store::sync_dir(*at);
    struct stat named{};  // a folder that is gone holds no names to keep
    if (!synced && (::lstat(at->c_str(), &named) != 0 || !S_ISDIR(named.st_mode))) synced = {};
    if (!synced && first) first = synced;
    at = synced ? folders_.erase(at) : std::next(at);
  }
  return first;
}

}  // namespace sessiond::transcripts
