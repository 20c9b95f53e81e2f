#include "transcripts/mend.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "store/files.hpp"
#include "store/try.hpp"
#include "transcripts/entry.hpp"
#include "transcripts/line_reader.hpp"

namespace sessiond::transcripts {
namespace fs = std::filesystem;
namespace {

Result<fs::path> copy_torn(int fd, const fs::path& path, std::uint64_t begin, std::uint64_t end) {
  fs::path torn = path;
  torn += ".torn." + store::time_for_names();
  TRY(const auto copy, store::open_file(torn, O_WRONLY | O_CREAT | O_EXCL));
  TRY(store::copy_range(fd, path, begin, end, copy.get(), torn));
  TRY(store::sync_file(copy.get(), torn));
  TRY(store::sync_dir(path.parent_path()));
  return torn;
}

}  // namespace

Result<std::optional<MendedEnd>> mend_end(const fs::path& path, TornLine torn) {
  const auto fd = store::open_within(path, O_RDWR | O_APPEND | O_NONBLOCK);
  if (!fd && fd.error().code == Code::not_found) return std::nullopt;
  if (!fd) return std::unexpected(store::in_the_way(path, fd.error()));
  TRY(const auto status, store::status_of(fd->get(), path.native()));
  if (!S_ISREG(status.st_mode)) return fail(Code::degraded, fmt::format("{} is not a regular file", path.native()));
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size == 0) return std::nullopt;
  LineReader reader(fd->get(), size, path.native());
  TRY(const auto ended, reader.begins_line(size));
  if (ended) return std::nullopt;
  TRY(const auto begin, reader.begin_of(size));
  TRY(const auto line, reader.text(begin, size));

  MendedEnd mended{.offset = begin, .bytes = size - begin};
  if (torn == TornLine::keep || entry_type(line) != "unreadable") {
    TRY(store::write_all(fd->get(), "\n", path.native()));
  } else {
    TRY(mended.torn, copy_torn(fd->get(), path, begin, size));
    if (::ftruncate(fd->get(), static_cast<off_t>(begin)) != 0) return io_fail("cut", path.native());
  }
  TRY(store::sync_file(fd->get(), path));
  return mended;
}

}  // namespace sessiond::transcripts
