#include "daemon/search/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>

#include "daemon/search/schema.hpp"
#include "store/files.hpp"
#include "store/try.hpp"

namespace sessiond::search {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t room_for_the_store = 256 << 20;
constexpr std::size_t id_offset = 68;  // of the application id in SQLite's header, big-endian

std::string head_of(const fs::path& path) {
  std::array<char, id_offset + 4> head{};
  const store::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  const ssize_t read = fd.get() < 0 ? 0 : ::read(fd.get(), head.data(), head.size());
  return {head.data(), read < 0 ? 0 : static_cast<std::size_t>(read)};
}

bool is_index(const fs::path& path) {
  const std::string head = head_of(path);
  if (head.size() < id_offset + 4 || !head.starts_with("SQLite format 3")) return false;
  std::uint32_t id = 0;
  for (std::size_t at = 0; at < 4; ++at) id = id << 8 | static_cast<unsigned char>(head[id_offset + at]);
  return id == application_id;
}

bool is_wal(const fs::path& path) {
  const std::string head = head_of(path);
  return head.starts_with("\x37\x7f\x06\x82") || head.starts_with("\x37\x7f\x06\x83");
}

Problem not_ours(const fs::path& path) {
  return {.code = Code::degraded,
          .detail = path.native() + " is no index of sessiond, and stays as it is: move it away, or set search.path"};
}

}  // namespace

fs::path IndexFile::beside(const char* suffix) const { return path_.native() + suffix; }

Result<IndexFile::Content> IndexFile::prepare() {
  struct stat status{};
  const bool there = ::lstat(path_.c_str(), &status) == 0;
  if (there && !S_ISREG(status.st_mode)) return std::unexpected(not_ours(path_));
  const bool known = there && status.st_ino == inode_;
  inode_ = 0;
  if (there && status.st_size > 0 && !own_folder_ && !known && !is_index(path_))
    return std::unexpected(not_ours(path_));
  if (!there) {  // what was written ahead of a file that is gone would be taken for the new one's
    if (!own_folder_ && ::lstat(beside("-wal").c_str(), &status) == 0 && !is_wal(beside("-wal")))
      return std::unexpected(not_ours(beside("-wal")));
    remove_beside();
  }
  TRY(store::make_dirs(path_.parent_path()));
  const store::Fd fd(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (fd.get() < 0 || ::fchmod(fd.get(), 0600) != 0 || ::fstat(fd.get(), &status) != 0)
    return fail(Code::degraded, path_.native() + " cannot be opened: " + std::generic_category().message(errno));
  inode_ = status.st_ino;
  return status.st_size > 0 ? Content::some : Content::none;
}

bool IndexFile::is_there() const {
  struct stat status{};
  return ::lstat(path_.c_str(), &status) == 0 && status.st_ino == inode_;
}

IndexFile::Looks IndexFile::look() const {
  Looks looks;
  auto at = looks.begin();
  for (const char* suffix : {"", "-wal"}) {
    struct stat status{};
    Look& one = *at++;
    if (::lstat(beside(suffix).c_str(), &status) != 0) continue;
    one = {.inode = status.st_ino,
           .size = status.st_size,
           .changed_ns = status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec};
  }
  return looks;
}

void IndexFile::note_opened() { opened_ = noted_ = look(); }
void IndexFile::note() { noted_ = look(); }
void IndexFile::note_wal() { noted_.back() = look().back(); }

bool IndexFile::is_untouched() const {
  const Looks now = look();
  return now == noted_ && now.front().inode == inode_ &&
         std::ranges::equal(now, opened_, {}, &Look::inode, &Look::inode);
}

bool IndexFile::has_room() const {
  std::error_code error;
  const fs::space_info disk = fs::space(path_.parent_path(), error);
  return error || disk.available > std::min(room_for_the_store, disk.capacity / 4);  // an error is told by a write
}

void IndexFile::remove_beside() {
  for (const char* suffix : {"-wal", "-shm"}) ::unlink(beside(suffix).c_str());
}

void IndexFile::remove() {
  if (own_folder_ || is_there() || is_index(path_)) {
    ::unlink(path_.c_str());
    remove_beside();
  }
  inode_ = 0;
}

}  // namespace sessiond::search
