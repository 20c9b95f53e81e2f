#include "daemon/cli/state_lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "daemon/doctor/state_owner.hpp"

namespace sessiond {
namespace fs = std::filesystem;
namespace {

Problem held_by_another(const fs::path& state_dir) {
  const auto owner = state_owner(state_dir);
  // Between its flock and its first line an owner is not known yet, and the line of the one before stands there.
  const bool known = owner && *owner && (*owner)->state() != StateOwner::State::gone;
  const std::string who = known ? fmt::format("pid {}", (*owner)->pid) : std::string("another process");
  return {.code = Code::degraded, .detail = fmt::format("state directory {} is in use by {}", state_dir.native(), who)};
}

// False: it is another file by now, since somebody removed the one we have.
bool still_there(int fd, const fs::path& path) {
  struct stat held{};
  struct stat named{};
  return ::fstat(fd, &held) == 0 && ::lstat(path.c_str(), &named) == 0 && held.st_ino == named.st_ino &&
         held.st_dev == named.st_dev;
}

int take(int fd) {
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

Result<void> sign(int fd, const fs::path& path) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto now_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  if (::ftruncate(fd, 0) != 0) return std::unexpected(io_problem("truncate", path.native(), errno));
  return write_all_at(fd, to_json(this_process(now_ms)), 0, path.native());
}

}  // namespace

Result<StateLock> StateLock::acquire(const fs::path& state_dir) {
  if (auto made = make_dirs(state_dir); !made) return std::unexpected(made.error());
  const fs::path path = state_lock_file(state_dir);
  for (;;) {
    auto fd = open_file(path, O_RDWR | O_CREAT);
    if (!fd) return std::unexpected(fd.error());
    if (const int error = take(fd->get()); error != 0) {
      if (error == EWOULDBLOCK) return std::unexpected(held_by_another(state_dir));
      return std::unexpected(io_problem("lock", path.native(), error));
    }
    if (!still_there(fd->get(), path)) continue;
    // On a full disk the lock holds all the same; only its owner cannot be named.
    if (auto signed_ = sign(fd->get(), path); !signed_ && signed_.error().code != Code::storage_full)
      return std::unexpected(signed_.error());
    return StateLock(std::move(*fd));
  }
}

Result<void> check_user(const fs::path& state_dir) {
  struct stat status{};
  if (::lstat(state_lock_file(state_dir).c_str(), &status) != 0 && ::stat(state_dir.c_str(), &status) != 0) return {};
  if (status.st_uid == ::geteuid()) return {};
  return fail(Code::degraded, fmt::format("{} belongs to uid {}: run this as that user (e.g. sudo -u '#{}' sessiond …)",
                                          state_dir.native(), status.st_uid, status.st_uid));
}

}  // namespace sessiond
