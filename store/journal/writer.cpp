#include "store/journal/writer.hpp"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <system_error>
#include <utility>

#include "store/fault_point.hpp"
#include "store/try.hpp"

namespace sessiond::journal {
namespace {

// Zeros cost about as much as ten lines save. So a segment gets as many as it has had lines, and none at first.
constexpr std::uint64_t least_zeros = 16ULL << 10;
constexpr std::uint64_t most_zeros = 256ULL << 10;

}  // namespace

Result<SegmentWriter> SegmentWriter::create(const std::filesystem::path& path, std::string_view first_line,
                                            const Ops& ops) {
  TRY(auto file, ops->create(path));
  SegmentWriter writer(std::move(file), path, 0, ops);
  store::fault_point("journal.segment_created");
  auto done = writer.append(first_line);
  if (done) done = ops->sync_dir(path.parent_path());
  if (done) return writer;
  std::error_code ignored;  // if it stays, it overrides no durable event
  std::filesystem::remove(path, ignored);
  return std::unexpected(done.error());
}

Result<SegmentWriter> SegmentWriter::reopen(const std::filesystem::path& path, std::uint64_t end, Ops ops) {
  TRY(auto file, store::open_file(path, O_RDWR));
  TRY(const auto status, store::status_of(file.get(), path.native()));
  SegmentWriter writer(std::move(file), path, end, std::move(ops));
  writer.zeros_end_ = std::max(end, static_cast<std::uint64_t>(status.st_size));
  writer.cut_zeros();
  return writer;
}

Result<void> SegmentWriter::append(std::string_view line) {
  assert(sound_);
  if (auto written = write(line); !written) {
    sound_ = written.error().code == Code::storage_full && cut_back();
    return written;
  }
  store::fault_point("journal.written");
  // Not repeated after an error, EINTR included: the kernel may have dropped the pages.
  sound_ = ops_->sync(fd_.get()) == 0;
  if (!sound_) return io_fail("fdatasync", path_.native());
  store::fault_point("journal.synced");
  end_ += line.size();
  appended_ += line.size();
  return {};
}

Result<void> SegmentWriter::write(std::string_view line) {
  for (std::size_t done = 0; done < line.size();) {
    const ssize_t written =
        ops_->write(fd_.get(), line.data() + done, line.size() - done, static_cast<off_t>(end_ + done));
    if (written < 0 && errno == EINTR) continue;
    // 0 bytes without an error counts as an error, or this would loop for ever.
    if (written <= 0) return std::unexpected(io_problem("write", path_.native(), written < 0 ? errno : EIO));
    done += static_cast<std::size_t>(written);
  }
  return {};
}

void SegmentWriter::write_zeros(std::uint64_t limit) {
  const std::uint64_t ahead = std::min(appended_, most_zeros);
  const std::uint64_t from = std::max(end_, zeros_end_);
  const std::uint64_t to = std::min(end_ + ahead, limit);
  if (!zeros_fit_ || !sound_ || ahead < least_zeros || from - end_ > ahead / 2 || from >= to) return;
  zeros_end_ = to;  // some of them may be there even when it fails
  zeros_fit_ = ops_->write_zeros(fd_.get(), from, to);
  if (!zeros_fit_) cut_zeros();
}

void SegmentWriter::cut_zeros() {
  if (zeros_end_ > end_) static_cast<void>(!::ftruncate(fd_.get(), static_cast<off_t>(end_)));
  zeros_end_ = end_;
}

// A write that found no room has changed no durable page, so this restores the file.
bool SegmentWriter::cut_back() {
  zeros_end_ = end_;
  return ::ftruncate(fd_.get(), static_cast<off_t>(end_)) == 0 && ops_->sync(fd_.get()) == 0;
}

void SegmentWriter::abandon() {
  // May fail: the overriding segment makes the rest void anyway. It gives a full disk room for that segment.
  static_cast<void>(!::ftruncate(fd_.get(), static_cast<off_t>(end_)));
}

}  // namespace sessiond::journal
