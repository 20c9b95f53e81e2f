#include "store/files.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <initializer_list>
#include <span>
#include <system_error>
#include <vector>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "store/clock.hpp"
#include "store/confine.hpp"
#include "store/fault_point.hpp"
#include "store/hex.hpp"
#include "store/try.hpp"

namespace sessiond::store {
namespace fs = std::filesystem;
namespace {

constexpr mode_t file_mode = 0600;
constexpr mode_t dir_mode = 0700;

template <class Call>
auto retry(Call call) {
  for (;;) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

fs::path parent_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

std::int64_t nanoseconds(const timespec& time) { return time.tv_sec * 1'000'000'000LL + time.tv_nsec; }

// Reads into `out`, at most `length` bytes; ends early only at the end of the file.
template <class ReadSome>
Result<void> fill(std::string& out, std::size_t length, std::string_view path, ReadSome read_some) {
  int error = 0;
  // libstdc++ 12 passes the capacity, not the length, as the second argument: it is ignored.
  out.resize_and_overwrite(length, [&](char* data, std::size_t) {
    std::size_t got = 0;
    while (got < length) {
      const ssize_t n = retry([&] { return read_some(data + got, length - got, got); });
      if (n < 0) error = errno;
      if (n <= 0) break;
      got += static_cast<std::size_t>(n);
    }
    return got;
  });
  if (error != 0) return std::unexpected(io_problem("read", path, error));
  return {};
}

struct Fence {
  std::string named{};  // the directory as paths name it, with a trailing '/'
  std::string real{};   // the same without symbolic links
};
std::vector<Fence>& fences() {
  static std::vector<Fence> all;
  return all;
}

// The innermost fence around a path; null: it is not checked.
const Fence* fence_of(const fs::path& path) {
  const Fence* found = nullptr;
  for (const Fence& fence : fences())
    if (path.native().starts_with(fence.named) && (found == nullptr || fence.named.size() > found->named.size()))
      found = &fence;
  return found;
}

// The path of an open file; "" when the kernel does not tell.
std::string real_path(int fd) {
  std::array<char, 4096> text{};
  const ssize_t size = ::readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), text.data(), text.size());
  return size <= 0 ? std::string() : std::string(text.data(), static_cast<std::size_t>(size));
}

std::unexpected<Problem> led_out(std::string_view path, const Fence& fence) {
  return fail(Code::invalid_id, fmt::format("{}: a symbolic link leads out of {}", path, fence.named));
}

// Refuses an open file outside the state directory. Removes it again if open_file() made it.
Result<void> check_within(int fd, const fs::path& path, bool made) {
  const Fence* fence = fence_of(path);
  if (fence == nullptr) return {};
  const std::string real = real_path(fd);
  if (real.starts_with(fence->real)) return {};
  if (made && !real.empty()) ::unlink(real.c_str());
  return led_out(path.native(), *fence);
}

void random_bytes(std::span<unsigned char> bytes) {
  // Without entropy nothing here (tokens, file names) would be safe: not an expected failure.
  if (::getentropy(bytes.data(), bytes.size()) != 0)
    throw std::system_error(errno, std::generic_category(), "getentropy");
}

}  // namespace

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

Fd::~Fd() {
  if (fd_ >= 0) ::close(fd_);
}

FileIdentity identity(const struct stat& status) {
  return {.inode = status.st_ino,
          .ctime_ns = nanoseconds(status.st_ctim),
          .mtime_ns = nanoseconds(status.st_mtim),
          .size = static_cast<std::uint64_t>(status.st_size)};
}

Result<struct stat> status_of(int fd, std::string_view path) {
  struct stat status{};
  if (::fstat(fd, &status) != 0) return io_fail("stat", path);
  return status;
}

std::optional<struct stat> stat_of(const fs::path& path) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0) return {};
  return status;
}

Result<Fd> open_file(const fs::path& path, int flags) {
  // Truncates only after the file's real path was checked.
  const int base = (flags & ~(O_CREAT | O_EXCL | O_TRUNC)) | O_CLOEXEC | O_NOFOLLOW;
  for (;;) {
    if ((flags & O_EXCL) == 0) {
      Fd opened(retry([&] { return ::open(path.c_str(), base); }));
      if (opened) {
        TRY(check_within(opened.get(), path, false));
        if ((flags & O_TRUNC) != 0 && ::ftruncate(opened.get(), 0) != 0) return io_fail("truncate", path.native());
        return opened;
      }
      if (errno != ENOENT) return io_fail("open", path.native());
      if ((flags & O_CREAT) == 0)
        return fail(Code::not_found, fmt::format("open {}: there is no such file", path.native()));
    }
    const int fd = retry([&] { return ::open(path.c_str(), base | O_CREAT | O_EXCL, file_mode); });
    if (fd < 0) {
      if (errno == EEXIST && (flags & O_EXCL) == 0) continue;  // another process made it just now
      return io_fail("create", path.native());
    }
    Fd created(fd);
    TRY(check_within(fd, path, true));
    if (::fchmod(fd, file_mode) != 0) return io_fail("chmod", path.native());
    return created;
  }
}

namespace {

// Opens the file that a symbolic link leads to, without access to its content. Nothing: the link is not followed.
Fd open_link(const fs::path& path) {
  Fd named(retry([&] { return ::open(path.c_str(), O_PATH | O_CLOEXEC); }));
  if (!named || !check_within(named.get(), path, false)) return {};
  const Fence* fence = fence_of(path);
  if (fence == nullptr) return {};
  const std::string real = real_path(named.get());
  return may_be_linked(std::string_view(real).substr(fence->real.size())) ? std::move(named) : Fd{};
}

}  // namespace

bool may_be_linked(std::string_view file) {
  const std::size_t slash = file.find_last_of('/');
  return slash != file.npos && !file.starts_with("journal/") && file.substr(slash).contains(".jsonl");
}

std::optional<struct stat> stat_within(const fs::path& path) {
  auto status = stat_of(path);
  if (!status || !S_ISLNK(status->st_mode)) return status;
  const Fd named = open_link(path);
  struct stat followed{};
  return named && ::fstat(named.get(), &followed) == 0 ? followed : status;
}

fs::path path_within(const fs::path& path) {
  const auto status = stat_of(path);
  if (!status || !S_ISLNK(status->st_mode)) return path;
  const Fd named = open_link(path);
  if (!named) return path;
  const std::string real = real_path(named.get());
  return real.empty() ? path : fs::path(real);
}

Result<Fd> open_within(const fs::path& path, int flags) {
  const fs::path real = path_within(path);
  if (real == path) return open_file(path, flags);
  // Between the two somebody may have made a link of a folder: the file is asked where it really lies, as always.
  Fd opened(retry([&] { return ::open(real.c_str(), (flags & ~(O_CREAT | O_EXCL)) | O_CLOEXEC | O_NOFOLLOW); }));
  if (!opened && errno == ENOENT)
    return fail(Code::not_found, fmt::format("open {}: there is no such file", path.native()));
  if (!opened) return io_fail("open", path.native());
  TRY(check_within(opened.get(), path, false));
  return opened;
}

Problem in_the_way(const fs::path& path, Problem why) {
  const auto degraded = [&path](std::string_view what) {
    return Problem{.code = Code::degraded, .detail = fmt::format("{} {}", path.native(), what)};
  };
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0) {
    if (errno == ENOTDIR) return degraded("cannot be used: a file stands where its folder should be");
    if (why.code == Code::invalid_id) return degraded("cannot be used: " + why.detail);
    return why;
  }
  if (S_ISDIR(status.st_mode)) return degraded("is a folder, where a file should be");
  if (S_ISLNK(status.st_mode)) {
    std::error_code error;
    const Fence* fence = fence_of(path);
    const fs::path real = fs::canonical(path, error);
    const bool out = !error && fence != nullptr && !real.native().starts_with(fence->real);
    Problem link = degraded(error ? "is a symbolic link that leads nowhere"
                            : out ? "is a symbolic link that leads out of the state directory"
                                  : "is a symbolic link that is not followed, where a file should be");
    link.lasting = true;
    return link;
  }
  if (!S_ISREG(status.st_mode)) return degraded("is not a regular file");
  if (why.code == Code::invalid_id) return degraded("cannot be used: " + why.detail);
  if (::access(path.c_str(), R_OK | W_OK) != 0 && errno == EACCES) return degraded("may not be read and written by us");
  return why;
}

Result<void> confine_below(const fs::path& dir) {
  if (dir.empty()) {
    fences().clear();
    return {};
  }
  std::error_code error;
  const fs::path real = fs::canonical(dir, error);
  if (error) return std::unexpected(io_problem("resolve", dir.native(), error.value()));
  fences().push_back({.named = dir.native() + "/", .real = real.native() + "/"});
  return {};
}

Result<void> make_dirs(const fs::path& path) {
  if (const Fence* fence = fence_of(path)) {
    std::error_code error;
    const fs::path real = fs::weakly_canonical(path, error);
    if (error || !(real.native() + "/").starts_with(fence->real)) return led_out(path.native(), *fence);
  }
  struct stat there{};
  if (::stat(path.c_str(), &there) == 0 && S_ISDIR(there.st_mode)) return {};
  fs::path made;
  for (const fs::path& part : path) {
    made /= part;
    if (part.empty()) continue;  // a slash at the end
    if (::mkdir(made.c_str(), dir_mode) == 0) {
      if (::chmod(made.c_str(), dir_mode) != 0) return io_fail("chmod", made.native());
      TRY(sync_dir(parent_of(made)));
      continue;
    }
    // EROFS, EACCES: a directory above ours that we may not write to, but that exists.
    const int error = errno;
    struct stat status{};
    if (::stat(made.c_str(), &status) != 0)
      return std::unexpected(io_problem("create directory", made.native(), error));
    if (!S_ISDIR(status.st_mode)) return std::unexpected(io_problem("create directory", made.native(), ENOTDIR));
  }
  return {};
}

Result<std::string> read_file(const fs::path& path) {
  // O_NONBLOCK: opening a FIFO must not block.
  TRY(auto fd, open_file(path, O_RDONLY | O_NONBLOCK));
  TRY(const auto status, status_of(fd.get(), path.native()));
  if (!S_ISREG(status.st_mode)) return fail(Code::internal, fmt::format("read {}: not a regular file", path.native()));
  std::string text;
  std::size_t want = static_cast<std::size_t>(status.st_size) + 1;  // one more, to see the end with the first read
  for (;;) {
    std::string piece;
    TRY(fill(piece, want, path.native(),
             [&](char* data, std::size_t size, std::size_t) { return ::read(fd.get(), data, size); }));
    const bool at_end = piece.size() < want;
    if (text.empty()) {
      text = std::move(piece);
    } else {
      text += piece;
    }
    if (at_end) return text;
    want = std::max(std::size_t{64} * 1024, want / 4);  // it grows while we read
  }
}

Result<void> write_all(int fd, std::string_view bytes, std::string_view path) {
  while (!bytes.empty()) {
    const ssize_t n = retry([&] { return ::write(fd, bytes.data(), bytes.size()); });
    if (n < 0) return io_fail("write", path);
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

Result<void> write_all_at(int fd, std::string_view bytes, std::uint64_t offset, std::string_view path) {
  while (!bytes.empty()) {
    const ssize_t n = retry([&] { return ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset)); });
    if (n < 0) return io_fail("write", path);
    bytes.remove_prefix(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  return {};
}

Result<std::string> read_at(int fd, std::uint64_t offset, std::size_t length, std::string_view path) {
  std::string text;
  TRY(fill(text, length, path, [&](char* data, std::size_t size, std::size_t done) {
    return ::pread(fd, data, size, static_cast<off_t>(offset + done));
  }));
  return text;
}

Result<void> copy_range(int from, const fs::path& source, std::uint64_t offset, std::uint64_t end, int to,
                        const fs::path& target) {
  constexpr std::uint64_t piece = 1 << 20;
  while (offset < end) {
    TRY(const auto bytes,
        read_at(from, offset, static_cast<std::size_t>(std::min(piece, end - offset)), source.native()));
    if (bytes.empty()) break;
    TRY(write_all(to, bytes, target.native()));
    offset += bytes.size();
  }
  return {};
}

Result<void> sync_file(int fd, const fs::path& path) {
  if (retry([&] { return ::fsync(fd); }) != 0) return io_fail("fsync", path.native());
  return {};
}

Result<void> sync_dir(const fs::path& dir) {
  const int fd = retry([&] { return ::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (fd < 0) return io_fail("open directory", dir.native());
  const Fd owned(fd);
  if (retry([&] { return ::fsync(fd); }) != 0) return io_fail("fsync directory", dir.native());
  return {};
}

Result<void> replace_file(const fs::path& path, std::string_view bytes) {
  fs::path temp = path;
  temp += fmt::format(".{}.{}.tmp", ::getpid(), random_uuid());
  auto write_temp = [&]() -> Result<void> {
    TRY(auto fd, open_file(temp, O_WRONLY | O_CREAT | O_EXCL));
    TRY(write_all(fd.get(), bytes, temp.native()));
    TRY(sync_file(fd.get(), temp));
    fault_point("replace.temp_synced");
    if (::rename(temp.c_str(), path.c_str()) != 0) return io_fail("rename over", path.native());
    fault_point("replace.renamed");
    return {};
  };
  if (auto done = write_temp(); !done) {
    ::unlink(temp.c_str());
    return done;
  }
  return sync_dir(parent_of(path));
}

bool can_exchange(const fs::path& dir) {
  const fs::path one = dir / "exchange-1.tmp";
  const fs::path two = dir / "exchange-2.tmp";
  const bool done = open_file(one, O_RDWR | O_CREAT) && open_file(two, O_RDWR | O_CREAT) &&
                    ::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, two.c_str(), RENAME_EXCHANGE) == 0;
  const bool unsupported = !done && (errno == EINVAL || errno == ENOSYS);
  ::unlink(one.c_str());
  ::unlink(two.c_str());
  return !unsupported;
}

Result<fs::path> resolve_below(const fs::path& base, std::string_view relative) {
  const auto refuse = [&](std::string_view why) {
    return fail(Code::invalid_id, fmt::format("\"{}\" {} {}", relative, why, base.native()));
  };
  if (relative.empty() || relative.contains('\0')) return refuse("is no name below");
  const fs::path name(relative);
  if (name.is_absolute() || std::ranges::find(name, fs::path("..")) != name.end()) return refuse("leaves");

  std::error_code error;
  const fs::path root = fs::canonical(base, error);
  if (error) return std::unexpected(io_problem("resolve", base.native(), error.value()));
  fs::path walked = base;
  for (const fs::path& part : name) {
    walked /= part;
    const fs::file_status status = fs::symlink_status(walked, error);
    if (status.type() == fs::file_type::not_found) break;  // nothing below it exists either
    if (error) return std::unexpected(io_problem("resolve", walked.native(), error.value()));
    if (status.type() != fs::file_type::symlink) continue;
    const fs::path real = fs::canonical(walked, error);
    if (error) return refuse("is a broken symbolic link below");
    if (std::ranges::mismatch(root, real).in1 != root.end()) return refuse("is a symbolic link out of");
  }
  return base / name;
}

Result<void> keep_copy(const fs::path& from, const fs::path& to) {
  if (::link(from.c_str(), to.c_str()) != 0) {  // no hard links here: copies
    std::error_code error;
    if (!fs::copy_file(from, to, error)) return std::unexpected(io_problem("copy", from.native(), error.value()));
    TRY(const auto copy, open_file(to, O_RDWR));
    TRY(sync_file(copy.get(), to));
  }
  if (::chmod(to.c_str(), 0600) != 0) return io_fail("chmod", to.native());
  return sync_dir(to.parent_path());
}

Result<fs::path> put_aside(const fs::path& path) {
  fs::path aside = fmt::format("{}.damaged.{}", path.native(), time_for_names());
  if (::rename(path.c_str(), aside.c_str()) != 0) return io_fail("move", path.native());
  if (const auto status = stat_of(aside); status && !S_ISLNK(status->st_mode))
    static_cast<void>(::chmod(aside.c_str(), S_ISDIR(status->st_mode) ? dir_mode : file_mode));
  TRY(sync_dir(path.parent_path()));
  return aside;
}

std::string time_for_names() {
  const std::int64_t ms = unix_ms();
  return fmt::format("{:%Y-%m-%dT%H-%M-%S}.{:03}Z", fmt::gmtime(static_cast<std::time_t>(ms / 1000)), ms % 1000);
}

std::string random_hex(std::size_t digits) {
  std::vector<unsigned char> bytes((digits + 1) / 2);
  random_bytes(bytes);
  std::string text = to_hex(bytes);
  text.resize(digits);
  return text;
}

std::string random_uuid() {
  std::array<unsigned char, 16> bytes{};
  random_bytes(bytes);
  bytes[6] = static_cast<unsigned char>((bytes[6] & 0x0F) | 0x40);  // version 4
  bytes[8] = static_cast<unsigned char>((bytes[8] & 0x3F) | 0x80);  // variant 1
  std::string text = to_hex(bytes);
  for (const std::size_t place : {8U, 13U, 18U, 23U}) text.insert(place, 1, '-');
  return text;
}

}  // namespace sessiond::store
