#include "transcripts/appender.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <list>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "store/files.hpp"
#include "transcripts/placing.hpp"

namespace sessiond {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t most_open_files = 256;

struct Pending {
  struct Item {
    std::uint64_t offset = 0;
    std::size_t begin = 0;  // in bytes
    std::string id;
  };
  std::string bytes;
  std::vector<Item> items;
  bool contiguous = true;  // each line was to begin where the one before it ends

  std::vector<PlacedLine> lines() const {
    std::vector<PlacedLine> all;
    all.reserve(items.size());
    for (std::size_t i = 0; i < items.size(); ++i) {
      const std::size_t end = i + 1 < items.size() ? items[i + 1].begin : bytes.size();
      const auto line = std::string_view(bytes).substr(items[i].begin, end - items[i].begin);
      all.push_back({.offset = items[i].offset, .line = line, .id = items[i].id});
    }
    return all;
  }
};

struct OpenFile {
  std::string file;
  fs::path path;
  Fd fd;
  dev_t device = 0;
  ino_t inode = 0;
  std::uint64_t size = 0;  // when it was last looked at
  bool known = false;      // we have brought lines into it: what others add comes behind them
};

Result<struct stat> status_of(int fd, const fs::path& path) {
  struct stat status{};
  if (::fstat(fd, &status) != 0) return std::unexpected(io_problem("stat", path.native(), errno));
  return status;
}

// Takes back what of `bytes` got into the file before the write failed, unless something else got there as well.
void take_back(const OpenFile& open, std::uint64_t old_size, std::string_view bytes) {
  const auto status = status_of(open.fd.get(), open.path);
  if (!status || static_cast<std::uint64_t>(status->st_size) <= old_size) return;
  const auto length = static_cast<std::uint64_t>(status->st_size) - old_size;
  if (length > bytes.size()) return;
  const auto written = read_at(open.fd.get(), old_size, length, open.path.native());
  if (!written || !bytes.starts_with(*written)) return;
  // If this fails the torn line stays, and is completed by the next try.
  [[maybe_unused]] const int cut = ::ftruncate(open.fd.get(), static_cast<off_t>(old_size));
}

}  // namespace

struct TranscriptAppender::Impl {
  fs::path state_dir;
  std::map<std::string, Pending, std::less<>> pending{};
  std::size_t pending_bytes = 0;
  std::list<OpenFile> open_files{};  // the last used first
  std::unordered_map<std::string, std::list<OpenFile>::iterator> by_name{};
  std::set<std::string, std::less<>> unsynced{};
  std::set<fs::path> new_in{};                         // directories that hold files made since the last sync
  std::map<std::string, Problem, std::less<>> lost{};  // files whose fsync failed
  std::set<std::string> displaced{};

  Result<OpenFile*> open(const std::string& file);
  void forget(const std::string& file);
  Result<void> flush(const std::string& file, const Pending& lines);
  Result<void> write(OpenFile& open, std::uint64_t size, std::string_view bytes);
  Result<void> flush_one(std::map<std::string, Pending, std::less<>>::iterator at);
  Result<void> sync_file(const std::string& file);
};

// The file that stands at the name now; made when there is none.
Result<OpenFile*> TranscriptAppender::Impl::open(const std::string& file) {
  struct stat status{};
  if (const auto known = by_name.find(file); known != by_name.end()) {
    OpenFile& cached = *known->second;
    if (::lstat(cached.path.c_str(), &status) == 0 && status.st_ino == cached.inode && status.st_dev == cached.device) {
      cached.size = static_cast<std::uint64_t>(status.st_size);
      open_files.splice(open_files.begin(), open_files, known->second);
      return &cached;
    }
    displaced.insert(file);  // removed, renamed or replaced by another program
    forget(file);
  }
  auto path = resolve_below(state_dir, file);
  if (!path) return std::unexpected(path.error());
  if (::lstat(path->c_str(), &status) != 0) {
    if (errno != ENOENT) return std::unexpected(io_problem("stat", path->native(), errno));
    if (auto made = make_dirs(path->parent_path()); !made) return std::unexpected(made.error());
    new_in.insert(path->parent_path());
  }
  // O_APPEND: what another program appends between our look and our write is never written over.
  auto fd = open_file(*path, O_RDWR | O_APPEND | O_CREAT | O_NONBLOCK);
  if (!fd) return std::unexpected(fd.error());
  auto opened = status_of(fd->get(), *path);
  if (!opened) return std::unexpected(opened.error());
  if (!S_ISREG(opened->st_mode)) return fail(Code::internal, fmt::format("{} is not a regular file", path->native()));
  while (open_files.size() >= most_open_files) forget(std::string(open_files.back().file));
  open_files.push_front({.file = file,
                         .path = std::move(*path),
                         .fd = std::move(*fd),
                         .device = opened->st_dev,
                         .inode = opened->st_ino,
                         .size = static_cast<std::uint64_t>(opened->st_size)});
  by_name[file] = open_files.begin();
  return &open_files.front();
}

void TranscriptAppender::Impl::forget(const std::string& file) {
  const auto known = by_name.find(file);
  if (known == by_name.end()) return;
  open_files.erase(known->second);
  by_name.erase(known);
}

Result<void> TranscriptAppender::Impl::write(OpenFile& open, std::uint64_t size, std::string_view bytes) {
  if (bytes.empty()) return {};
  unsynced.insert(open.file);
  if (auto written = write_all(open.fd.get(), bytes, open.path.native()); !written) {
    take_back(open, size, bytes);
    return written;
  }
  const auto after = status_of(open.fd.get(), open.path);
  if (!after || static_cast<std::uint64_t>(after->st_size) != size + bytes.size()) displaced.insert(open.file);
  return {};
}

Result<void> TranscriptAppender::Impl::flush(const std::string& file, const Pending& lines) {
  auto opened = open(file);
  if (!opened) return std::unexpected(opened.error());
  OpenFile& target = **opened;
  const std::uint64_t size = target.size;
  bool simply_next = lines.contiguous && lines.items.front().offset == size;
  if (simply_next && size > 0) {
    auto last = read_at(target.fd.get(), size - 1, 1, target.path.native());
    if (!last) return std::unexpected(last.error());
    simply_next = *last == "\n";
  }
  if (simply_next) {
    if (auto written = write(target, size, lines.bytes); !written) return written;
  } else {
    auto placing = place_lines(target.fd.get(), size, lines.lines(), !target.known, target.path.native());
    if (!placing) return std::unexpected(placing.error());
    if (auto written = write(target, size, placing->append); !written) return written;
    if (placing->displaced) displaced.insert(file);
    // It may stand there from before a crash, written but never synced.
    unsynced.insert(file);
  }
  target.known = true;
  return {};
}

Result<void> TranscriptAppender::Impl::flush_one(std::map<std::string, Pending, std::less<>>::iterator at) {
  if (auto flushed = flush(at->first, at->second); !flushed) return flushed;
  pending_bytes -= at->second.bytes.size();
  pending.erase(at);
  return {};
}

Result<void> TranscriptAppender::Impl::sync_file(const std::string& file) {
  // After a failed fsync the kernel may have dropped the pages and a later one would succeed over the hole: such a file
  // is not called safe again by this process. The journal keeps its lines, and recovery puts them back.
  if (const auto gone = lost.find(file); gone != lost.end()) return std::unexpected(gone->second);
  Fd reopened;
  int fd = -1;
  if (const auto known = by_name.find(file); known != by_name.end()) {
    fd = known->second->fd.get();
  } else {
    auto path = resolve_below(state_dir, file);
    if (!path) return std::unexpected(path.error());
    auto again = open_file(*path, O_RDONLY | O_NONBLOCK);
    if (!again && again.error().code == Code::not_found) return {};  // removed by another program
    if (!again) return std::unexpected(again.error());
    reopened = std::move(*again);
    fd = reopened.get();
  }
  if (::fdatasync(fd) == 0) return {};
  const Problem problem = io_problem("fsync", file, errno);
  lost.emplace(file, problem);
  return std::unexpected(problem);
}

TranscriptAppender::TranscriptAppender(fs::path state_dir)
    : impl_(std::make_unique<Impl>(Impl{.state_dir = std::move(state_dir)})) {}
TranscriptAppender::~TranscriptAppender() = default;

void TranscriptAppender::add(const Place& place, std::string_view line, std::string_view id) {
  auto at = impl_->pending.find(place.file);
  if (at == impl_->pending.end()) at = impl_->pending.emplace(place.file, Pending{}).first;
  Pending& lines = at->second;
  if (!lines.items.empty() && place.offset != lines.items.front().offset + lines.bytes.size()) lines.contiguous = false;
  lines.items.push_back({.offset = place.offset, .begin = lines.bytes.size(), .id = std::string(id)});
  lines.bytes += line;
  impl_->pending_bytes += line.size();
}

std::size_t TranscriptAppender::pending_bytes() const { return impl_->pending_bytes; }

Result<void> TranscriptAppender::flush(std::string_view file) {
  const auto at = impl_->pending.find(file);
  return at == impl_->pending.end() ? Result<void>{} : impl_->flush_one(at);
}

Result<void> TranscriptAppender::flush() {
  Result<void> first;
  for (auto at = impl_->pending.begin(); at != impl_->pending.end();) {
    auto flushed = impl_->flush_one(at++);
    if (!flushed && first) first = std::move(flushed);
  }
  return first;
}

Result<void> TranscriptAppender::sync() {
  if (auto flushed = flush(); !flushed) return flushed;
  Result<void> first;
  for (auto at = impl_->unsynced.begin(); at != impl_->unsynced.end();) {
    auto synced = impl_->sync_file(*at);
    if (!synced && first) first = synced;
    at = synced ? impl_->unsynced.erase(at) : std::next(at);
  }
  for (auto at = impl_->new_in.begin(); at != impl_->new_in.end();) {
    auto synced = sync_dir(*at);
    if (!synced && first) first = synced;
    at = synced ? impl_->new_in.erase(at) : std::next(at);
  }
  return first;
}

std::vector<std::string> TranscriptAppender::take_displaced() {
  std::vector<std::string> files(impl_->displaced.begin(), impl_->displaced.end());
  impl_->displaced.clear();
  return files;
}

Result<void> TranscriptAppender::close(std::string_view file) {
  if (auto flushed = flush(file); !flushed) return flushed;
  // Under its next name nobody would sync it.
  if (const auto at = impl_->unsynced.find(file); at != impl_->unsynced.end()) {
    if (auto synced = impl_->sync_file(*at); !synced) return synced;
    impl_->unsynced.erase(at);
  }
  impl_->forget(std::string(file));
  return {};
}

}  // namespace sessiond
