#include "transcripts/mend.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "store/files.hpp"
#include "transcripts/entry.hpp"
#include "transcripts/line_reader.hpp"

namespace sessiond {
namespace fs = std::filesystem;
namespace {

Result<fs::path> copy_torn(int fd, const fs::path& path, std::uint64_t begin, std::uint64_t end) {
  fs::path torn = path;
  torn += ".torn." + time_for_names();
  const auto copy = open_file(torn, O_WRONLY | O_CREAT | O_EXCL);
  if (!copy) return std::unexpected(copy.error());
  if (auto copied = copy_range(fd, path, begin, end, copy->get(), torn); !copied)
    return std::unexpected(copied.error());
  if (auto synced = sync_file(copy->get(), torn); !synced) return std::unexpected(synced.error());
  if (auto synced = sync_dir(path.parent_path()); !synced) return std::unexpected(synced.error());
  return torn;
}

}  // namespace

Result<std::optional<MendedEnd>> mend_end(const fs::path& path) {
  const auto fd = open_file(path, O_RDWR | O_APPEND | O_NONBLOCK);
  if (!fd && fd.error().code == Code::not_found) return std::nullopt;
  if (!fd) return std::unexpected(in_the_way(path, fd.error()));
  struct stat status{};
  if (::fstat(fd->get(), &status) != 0) return std::unexpected(io_problem("stat", path.native(), errno));
  if (!S_ISREG(status.st_mode)) return fail(Code::degraded, fmt::format("{} is not a regular file", path.native()));
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size == 0) return std::nullopt;
  LineReader reader(fd->get(), size, path.native());
  const auto ended = reader.begins_line(size);
  if (!ended) return std::unexpected(ended.error());
  if (*ended) return std::nullopt;
  const auto begin = reader.begin_of(size);
  if (!begin) return std::unexpected(begin.error());
  const auto line = reader.text(*begin, size);
  if (!line) return std::unexpected(line.error());

  MendedEnd mended{.offset = *begin, .bytes = size - *begin};
  if (entry_type(*line) != "unreadable") {
    if (auto written = write_all(fd->get(), "\n", path.native()); !written) return std::unexpected(written.error());
  } else {
    auto torn = copy_torn(fd->get(), path, *begin, size);
    if (!torn) return std::unexpected(torn.error());
    mended.torn = std::move(*torn);
    if (::ftruncate(fd->get(), static_cast<off_t>(*begin)) != 0)
      return std::unexpected(io_problem("cut", path.native(), errno));
  }
  if (auto synced = sync_file(fd->get(), path); !synced) return std::unexpected(synced.error());
  return mended;
}

}  // namespace sessiond
