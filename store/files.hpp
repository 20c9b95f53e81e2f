// Files below the state directory: owned descriptors, atomic replacement, modes 0600/0700 whatever the umask, no
// following of symbolic links out of the tree. Errors are io_problem()s that carry the path. All calls block; the
// network thread makes none.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "store/problem.hpp"

namespace sessiond {

// An owned file descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd();
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }  // the caller's from now on
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// Which file this is: identity is never the inode alone (ext4 gives it again at once).
struct FileIdentity {
  std::uint64_t inode = 0;
  std::int64_t ctime_ns = 0;
  std::int64_t mtime_ns = 0;
  std::uint64_t size = 0;
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};
FileIdentity identity(const struct stat& status);

Result<Fd> open_file(const std::filesystem::path& path, int flags);  // O_CLOEXEC|O_NOFOLLOW added; created 0600
Result<void> make_dirs(const std::filesystem::path& path);           // 0700 each; existing ones are left alone
Result<std::string> read_file(const std::filesystem::path& path);    // whole; not_found when there is none
Result<void> write_all(int fd, std::string_view bytes, std::string_view path);  // EINTR and short writes handled
Result<void> write_all_at(int fd, std::string_view bytes, std::uint64_t offset, std::string_view path);
Result<std::string> read_at(int fd, std::uint64_t offset, std::size_t length,
                            std::string_view path);  // shorter only at the end of file
// Bytes [offset, end) of one file to where the other one stands, in pieces; fewer where it ends before.
Result<void> copy_range(int from, const std::filesystem::path& source, std::uint64_t offset, std::uint64_t end, int to,
                        const std::filesystem::path& target);
Result<void> sync_file(int fd, const std::filesystem::path& path);  // fsync, EINTR handled
Result<void> sync_dir(const std::filesystem::path& dir);
// Calls with every entry of a folder, as far as it can be read; an absent one has none.
template <class Call>
void each_in(const std::filesystem::path& dir, Call call) {
  std::error_code error;
  for (std::filesystem::directory_iterator at(dir, error), end; !error && at != end; at.increment(error)) call(*at);
}
// temp + fsync + rename + fsync of the directory; the old content or the new one, never less.
Result<void> replace_file(const std::filesystem::path& path, std::string_view bytes);
// Can two files in this folder change places in one step (RENAME_EXCHANGE)? Tries it with two of its own.
bool can_exchange(const std::filesystem::path& dir);
// Refuses (EXDEV-like invalid_id) a relative name that would leave `base` by "..", "/" or a symbolic link.
Result<std::filesystem::path> resolve_below(const std::filesystem::path& base, std::string_view relative);

// Why opening `path` failed, as a Problem of that file alone (degraded) when something else stands in its place: a
// folder, a link, a pipe, a file where its folder should be, or something that we may not touch. Else `why` as it is.
Problem in_the_way(const std::filesystem::path& path, Problem why);

// The time now as names of files put aside have it: 2026-11-21T22-00-00.000Z (':' as '-').
std::string time_for_names();
std::string random_hex(std::size_t digits);
std::string random_uuid();  // version 4

}  // namespace sessiond
