#include "store/journal_writer.hpp"

#include <cerrno>
#include <system_error>
#include <utility>

namespace sessiond::journal {

Result<SegmentWriter> SegmentWriter::create(const std::filesystem::path& path, std::string_view first_line, Ops ops) {
  auto file = ops->create(path);
  if (!file) return std::unexpected(file.error());
  SegmentWriter writer(std::move(*file), path, 0, ops);
  auto done = writer.append(first_line);
  if (done) done = ops->sync_dir(path.parent_path());
  if (done) return writer;
  std::error_code ignored;  // one that stays overrides nothing that anybody was told is durable
  std::filesystem::remove(path, ignored);
  return std::unexpected(done.error());
}

Result<SegmentWriter> SegmentWriter::reopen(const std::filesystem::path& path, std::uint64_t end, Ops ops) {
  auto file = open_file(path, O_RDWR | O_APPEND);
  if (!file) return std::unexpected(file.error());
  return SegmentWriter(std::move(*file), path, end, std::move(ops));
}

Result<void> SegmentWriter::append(std::string_view line) {
  for (std::string_view rest = line; !rest.empty();) {
    const ssize_t written = ops_->write(fd_.get(), rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    // A file that takes nothing and says no error would be asked for ever.
    if (written <= 0) return std::unexpected(io_problem("write", path_.native(), written < 0 ? errno : EIO));
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  // Not tried again after an error, EINTR included: the kernel may have dropped the pages.
  if (ops_->sync(fd_.get()) != 0) return std::unexpected(io_problem("fdatasync", path_.native(), errno));
  end_ += line.size();
  return {};
}

void SegmentWriter::abandon() {
  // Best effort: it gives a full disk room for the segment that overrides this one, which is what makes the rest void.
  static_cast<void>(!::ftruncate(fd_.get(), static_cast<off_t>(end_)));
}

}  // namespace sessiond::journal
