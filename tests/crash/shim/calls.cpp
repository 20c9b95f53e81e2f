// The file calls that this library takes the place of. Each that concerns a file below the directory is counted, fails
// when it is its turn, tells power.cpp what it changes, and is made by syscall(2). One at a time, so that a cut finds
// none half done. An fsync that succeeds is not made: what a killed process wrote stays with the kernel, and what a
// power cut would take is power.cpp's to know.
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <mutex>

#include "tests/crash/shim/control.hpp"
#include "tests/crash/shim/power.hpp"

namespace crash {
namespace {

std::mutex& one_at_a_time() {
  static std::mutex* const mutex = new std::mutex;
  return *mutex;
}

// Descriptors of files below the directory.
std::array<std::atomic<bool>, 1 << 16> ours{};
bool is_ours(int fd) {
  return fd >= 0 && static_cast<std::size_t>(fd) < ours.size() && ours[static_cast<std::size_t>(fd)];
}
void remember(long fd, bool below) {
  if (fd >= 0 && static_cast<std::size_t>(fd) < ours.size()) ours[static_cast<std::size_t>(fd)] = below;
}

int as_int(long result) { return static_cast<int>(result); }

// One counted call: holds the lock as long as it lives.
class Call {
 public:
  Call(const char* name, const std::string& path, unsigned can) : lock_(one_at_a_time()) {
    Control& told = control();
    const std::uint64_t number = ++told.calls;
    if (told.cut_at != 0 && number >= told.cut_at) {
      trace(number, name, path, "power cut");
      cut_power();
    }
    const auto fault = static_cast<Fault>(told.fault.load());
    if (told.fault_at != 0 && number >= told.fault_at && (can & gives(fault)) != 0) {
      fault_ = fault;
      ++told.faults;
      if (told.lasting == 0) told.fault_at = 0;
    }
    trace(number, name, path, fault_ == Fault::none ? "" : "fault");
  }

  // Sets errno: the call fails.
  bool fails() const {
    constexpr std::array errors{0, ENOSPC, EIO, EINTR, 0};
    if (const int error = errors[static_cast<std::size_t>(fault_)]; error != 0) errno = error;
    return fault_ != Fault::none && fault_ != Fault::short_write;
  }
  std::size_t length(std::size_t wanted) const {
    return fault_ == Fault::short_write && wanted > 1 ? wanted / 2 : wanted;
  }

 private:
  std::scoped_lock<std::mutex> lock_;
  Fault fault_ = Fault::none;
};

struct stat status_of(int fd) {
  struct stat status{};
  ::fstat(fd, &status);
  return status;
}

// How much of a write that would end at `end` the quota leaves; 0: nothing.
std::size_t within_quota(int fd, std::uint64_t offset, std::size_t length) {
  const Control& told = control();
  const auto size = static_cast<std::uint64_t>(status_of(fd).st_size);
  if (told.quota == 0 || offset + length <= size) return length;
  const std::uint64_t left = told.quota > told.used ? told.quota - told.used : 0;
  const std::uint64_t most = std::max(size, offset) - offset + left;
  return std::min<std::uint64_t>(length, most);
}

// The file has grown, or lost its last name.
void account(std::uint64_t before, std::uint64_t after) { control().used += after - before; }

std::uint64_t freed_by_removing(const std::string& path) {
  struct stat status{};
  if (control().quota == 0 || ::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_nlink > 1)
    return 0;
  return static_cast<std::uint64_t>(status.st_size);
}

// `make(length)` writes that many bytes at `offset` (negative: where the descriptor stands).
template <class Make>
ssize_t write_call(const char* name, int fd, std::size_t length, off_t offset, Make make) {
  const Call call(name, path_of(fd), any_error | may_interrupt | may_shorten);
  if (call.fails()) return -1;
  const auto before = static_cast<std::uint64_t>(status_of(fd).st_size);
  if ((::fcntl(fd, F_GETFL) & O_APPEND) != 0) {
    offset = static_cast<off_t>(before);
  } else if (offset < 0) {
    offset = ::lseek(fd, 0, SEEK_CUR);
  }
  const auto at = static_cast<std::uint64_t>(offset);
  const std::size_t some = within_quota(fd, at, call.length(length));
  if (some == 0 && length != 0) {
    errno = ENOSPC;
    return -1;
  }
  before_change(fd, at, at + some);
  const ssize_t written = make(some);
  account(before, static_cast<std::uint64_t>(status_of(fd).st_size));
  return written;
}

ssize_t write_pieces(const iovec* pieces, int count, std::size_t length, auto write_one) {
  std::size_t done = 0;
  for (int i = 0; i < count && done < length; ++i) {
    const ssize_t n = write_one(pieces[i].iov_base, std::min(pieces[i].iov_len, length - done), done);
    if (n < 0) return done > 0 ? static_cast<ssize_t>(done) : n;
    done += static_cast<std::size_t>(n);
  }
  return static_cast<ssize_t>(done);
}

std::size_t length_of(const iovec* pieces, int count) {
  std::size_t length = 0;
  for (int i = 0; i < count; ++i) length += pieces[i].iov_len;
  return length;
}

int open_call(const char* path, int flags, mode_t mode) {
  const std::string name = absolute(path);
  const auto make = [&] { return syscall(SYS_openat, AT_FDCWD, path, flags, mode); };
  if (!below(name) || (flags & (O_CREAT | O_TRUNC)) == 0) {
    const long fd = make();
    remember(fd, below(name));
    return as_int(fd);
  }
  const Call call("open", name, any_error | may_interrupt);
  if (call.fails()) return -1;
  if ((flags & O_TRUNC) != 0) {
    const long old = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (old >= 0) {
      const auto size = static_cast<std::uint64_t>(status_of(as_int(old)).st_size);
      before_change(as_int(old), 0, size);
      account(size, 0);
      syscall(SYS_close, old);
    }
  }
  NameChange change({name});
  const long fd = make();
  if (fd >= 0) change.done();
  remember(fd, true);
  return as_int(fd);
}

int sync_call(const char* name, int fd) {
  const std::string path = path_of(fd);
  const Call call(name, path, any_error | may_interrupt);
  const bool directory = S_ISDIR(status_of(fd).st_mode);
  if (call.fails()) {
    const int error = errno;
    if (!directory && error != EINTR) sync_failed(fd);
    errno = error;
    return -1;
  }
  if (directory) {
    directory_synced(path);
  } else {
    file_synced(fd);
  }
  return 0;
}

// A call that changes what `from` leads to, and `to` (empty: there is none); by `make`.
template <class Make>
int name_call(const char* call_name, const std::string& from, const std::string& to, unsigned can, std::uint64_t freed,
              Make make) {
  const Call call(call_name, to.empty() ? from : from + " -> " + to, can);
  if (call.fails()) return -1;
  NameChange change(to.empty() ? std::initializer_list<std::string>{from}
                               : std::initializer_list<std::string>{from, to});
  const long result = make();
  const int error = errno;
  if (result == 0) {
    change.done();
    account(freed, 0);
  }
  errno = error;
  return as_int(result);
}

int rename_call(const char* from, const char* to, unsigned flags) {
  const auto make = [&] { return syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, flags); };
  if (!below(absolute(from)) && !below(absolute(to))) return as_int(make());
  return name_call("rename", absolute(from), absolute(to), any_error, flags == 0 ? freed_by_removing(to) : 0, make);
}

int unlink_call(const char* path, int flags) {
  const auto make = [&] { return syscall(SYS_unlinkat, AT_FDCWD, path, flags); };
  if (!below(absolute(path))) return as_int(make());
  return name_call("unlink", absolute(path), "", gives(Fault::io_error), freed_by_removing(path), make);
}

}  // namespace
}  // namespace crash

using namespace crash;

extern "C" {

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  return open_call(path, flags, mode);
}

int close(int fd) {
  remember(fd, false);
  return as_int(syscall(SYS_close, fd));
}

ssize_t write(int fd, const void* bytes, std::size_t length) {
  const auto make = [&](std::size_t some) { return syscall(SYS_write, fd, bytes, some); };
  return is_ours(fd) ? write_call("write", fd, length, -1, make) : make(length);
}

ssize_t pwrite(int fd, const void* bytes, std::size_t length, off_t offset) {
  const auto make = [&](std::size_t some) { return syscall(SYS_pwrite64, fd, bytes, some, offset); };
  return is_ours(fd) ? write_call("pwrite", fd, length, offset, make) : make(length);
}

ssize_t writev(int fd, const iovec* pieces, int count) {
  if (!is_ours(fd)) return syscall(SYS_writev, fd, pieces, count);
  return write_call("writev", fd, length_of(pieces, count), -1, [&](std::size_t some) {
    return write_pieces(pieces, count, some, [&](const void* bytes, std::size_t n, std::size_t) {
      return syscall(SYS_write, fd, bytes, n);
    });
  });
}

ssize_t pwritev(int fd, const iovec* pieces, int count, off_t offset) {
  if (!is_ours(fd)) return syscall(SYS_pwritev, fd, pieces, count, offset, 0);
  return write_call("pwritev", fd, length_of(pieces, count), offset, [&](std::size_t some) {
    return write_pieces(pieces, count, some, [&](const void* bytes, std::size_t n, std::size_t done) {
      return syscall(SYS_pwrite64, fd, bytes, n, offset + static_cast<off_t>(done));
    });
  });
}

int fsync(int fd) { return is_ours(fd) ? sync_call("fsync", fd) : as_int(syscall(SYS_fsync, fd)); }
int fdatasync(int fd) { return is_ours(fd) ? sync_call("fdatasync", fd) : as_int(syscall(SYS_fdatasync, fd)); }

int ftruncate(int fd, off_t length) noexcept {
  if (!is_ours(fd)) return as_int(syscall(SYS_ftruncate, fd, length));
  const Call call("ftruncate", path_of(fd), gives(Fault::io_error) | may_interrupt);
  if (call.fails()) return -1;
  const auto size = static_cast<std::uint64_t>(status_of(fd).st_size);
  const auto end = static_cast<std::uint64_t>(length);
  before_change(fd, std::min(size, end), std::max(size, end));
  account(size, end);
  return as_int(syscall(SYS_ftruncate, fd, length));
}

int rename(const char* from, const char* to) noexcept { return rename_call(from, to, 0); }
int renameat2(int, const char* from, int, const char* to, unsigned flags) noexcept {
  return rename_call(from, to, flags);
}

int linkat(int, const char* from, int, const char* to, int flags) noexcept {
  const auto make = [&] { return syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, flags); };
  if (!below(absolute(to))) return as_int(make());
  return name_call("link", absolute(to), "", any_error, 0, make);
}
int link(const char* from, const char* to) noexcept { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }

int unlink(const char* path) noexcept { return unlink_call(path, 0); }
int remove(const char* path) noexcept {
  const int removed = unlink_call(path, 0);
  return removed != 0 && errno == EISDIR ? unlink_call(path, AT_REMOVEDIR) : removed;
}

int mkdir(const char* path, mode_t mode) noexcept {
  const auto make = [&] { return syscall(SYS_mkdir, path, mode); };
  struct stat there{};
  // What is there is only looked at; whether the directory itself outlives a cut is not looked into.
  if (!below(std::filesystem::path(absolute(path)).parent_path()) || ::lstat(path, &there) == 0) return as_int(make());
  return name_call("mkdir", absolute(path), "", any_error, 0, make);
}

}  // extern "C"
