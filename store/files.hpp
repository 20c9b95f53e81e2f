// System calls on files below the state directory. Files are created with mode 0600, folders with 0700, whatever the
// umask is. Symbolic links out of the state directory are not followed (confine.hpp). Errors are io_problem()s that
// name the path. All calls block: never call them on the network thread.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "store/problem.hpp"

namespace sessiond::store {

// An owned file descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd();
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }  // the caller closes it
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// Tells whether a path still names the same, unchanged file. The inode alone is not enough: ext4 reuses it at once.
struct FileIdentity {
  std::uint64_t inode = 0;
  std::int64_t ctime_ns = 0;
  std::int64_t mtime_ns = 0;
  std::uint64_t size = 0;
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};
FileIdentity identity(const struct stat& status);
Result<struct stat> status_of(int fd, std::string_view path);           // of an open file; `path` is for problems
std::optional<struct stat> stat_of(const std::filesystem::path& path);  // of a link itself; nothing when it fails

// Returns whether a symbolic link may lead to a file, named relative to the state directory: a transcript (*.jsonl…) in
// a folder of it, and no file of the daemon.
bool may_be_linked(std::string_view file);
// As stat_of, but of a symbolic link that may be followed the file that it names. Other links are themselves: out of
// the state directory, nowhere, or where nothing is confined.
std::optional<struct stat> stat_within(const std::filesystem::path& path);
// The path of that file: `path`, unless it is such a link.
std::filesystem::path path_within(const std::filesystem::path& path);

Result<Fd> open_file(const std::filesystem::path& path, int flags);  // adds O_CLOEXEC and O_NOFOLLOW
// As open_file, but follows such a link. It makes no file behind one.
Result<Fd> open_within(const std::filesystem::path& path, int flags);
Result<void> make_dirs(const std::filesystem::path& path);         // existing ones keep their mode
Result<std::string> read_file(const std::filesystem::path& path);  // not_found when there is no file
Result<void> write_all(int fd, std::string_view bytes,
                       std::string_view path);  // continues after EINTR and short writes
Result<void> write_all_at(int fd, std::string_view bytes, std::uint64_t offset, std::string_view path);
Result<std::string> read_at(int fd, std::uint64_t offset, std::size_t length,
                            std::string_view path);  // shorter only at the end of file
// Copies bytes [offset, end) to the current position of `to`, in pieces; fewer when the file ends before.
Result<void> copy_range(int from, const std::filesystem::path& source, std::uint64_t offset, std::uint64_t end, int to,
                        const std::filesystem::path& target);
Result<void> sync_file(int fd, const std::filesystem::path& path);  // fsync; continues after EINTR
Result<void> sync_dir(const std::filesystem::path& dir);
// Calls `call` with every entry of a folder. A folder that is absent or cannot be read has none.
template <class Call>
void each_in(const std::filesystem::path& dir, Call call) {
  std::error_code error;
  for (std::filesystem::directory_iterator at(dir, error), end; !error && at != end; at.increment(error)) call(*at);
}
// Writes a temporary file, fsyncs it, renames it to `path` and fsyncs the directory. After a crash at any step `path`
// has its old content or the new one.
Result<void> replace_file(const std::filesystem::path& path, std::string_view bytes);
// Whether two files in this folder can be exchanged in one step (RENAME_EXCHANGE). Tries it with two temporary files.
bool can_exchange(const std::filesystem::path& dir);
// The path of `relative` below `base`. invalid_id: it leaves `base` by "..", "/" or a symbolic link.
Result<std::filesystem::path> resolve_below(const std::filesystem::path& base, std::string_view relative);

// Call it when opening `path` failed with `why`. When something else is there (a folder, a link, a pipe, a file where
// its folder should be, a file without permission) returns a `degraded` problem that says so; else returns `why`. Of a
// link the problem is lasting.
Problem in_the_way(const std::filesystem::path& path, Problem why);

// Gives a file a second name, or copies it where it cannot have one; with our mode, and durable. The folder of `to`
// exists. A file whose mode differs gets ours under both names.
Result<void> keep_copy(const std::filesystem::path& from, const std::filesystem::path& to);
// Renames a damaged or misplaced file, folder or link to <path>.damaged.<time>, with our mode, and fsyncs the folder.
// Returns the new name.
Result<std::filesystem::path> put_aside(const std::filesystem::path& path);

// The time now, for names of files: 2026-11-21T22-00-00.000Z.
std::string time_for_names();
std::string random_hex(std::size_t digits);
std::string random_uuid();  // version 4

}  // namespace sessiond::store
