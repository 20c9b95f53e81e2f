#include "store/new_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>  // renameat2
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "store/try.hpp"

namespace sessiond::store {

namespace {
constexpr std::size_t buffered_bytes = 256 << 10;

// For file systems without RENAME_NOREPLACE: link(2) does not replace a file either.
int rename_by_link(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::link(from.c_str(), to.c_str()) != 0) return -1;
  return ::unlink(from.c_str());
}

}  // namespace

int rename_without_replacing(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  return errno == EINVAL || errno == ENOSYS ? rename_by_link(from, to) : -1;
}

NewFile::NewFile(std::filesystem::path file, std::filesystem::path temporary, Fd fd)
    : file_(std::move(file)), temporary_(std::move(temporary)), fd_(std::move(fd)) {}

NewFile::NewFile(NewFile&& other) noexcept
    : file_(std::move(other.file_)),
      temporary_(std::exchange(other.temporary_, {})),
      fd_(std::move(other.fd_)),
      buffer_(std::move(other.buffer_)) {}

NewFile::~NewFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Result<NewFile> NewFile::begin(std::filesystem::path file) {
  std::filesystem::path temporary = fmt::format("{}.{}.tmp", file.native(), random_hex(8));
  Fd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) return std::unexpected(io_problem("writing", temporary.native(), errno));
  return NewFile(std::move(file), std::move(temporary), std::move(fd));
}

Result<void> NewFile::write(std::string_view bytes) {
  buffer_ += bytes;
  if (buffer_.size() >= buffered_bytes) TRY(flush());
  return {};
}

Result<void> NewFile::flush() {
  TRY(write_all(fd_.get(), buffer_, temporary_.native()));
  buffer_.clear();
  return {};
}

Result<void> NewFile::place(IfThere if_there) {
  TRY(flush());
  TRY(sync_file(fd_.get(), temporary_));
  const bool replaces = if_there == IfThere::is_replaced;
  if ((replaces ? ::rename(temporary_.c_str(), file_.c_str()) : rename_without_replacing(temporary_, file_)) != 0) {
    if (!replaces && errno == EEXIST) return fail(Code::session_exists, file_.native() + ": is there already");
    return std::unexpected(io_problem("writing", file_.native(), errno));
  }
  temporary_.clear();
  return sync_dir(file_.has_parent_path() ? file_.parent_path() : ".");
}

}  // namespace sessiond::store
