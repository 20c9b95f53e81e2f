#include "transcripts/transcript_writer.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <list>
#include <map>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>

#include "store/fault_point.hpp"
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
    std::optional<std::uint64_t> seq;
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
      all.push_back({.offset = items[i].offset, .line = line, .id = items[i].id, .seq = items[i].seq});
    }
    return all;
  }
  std::optional<std::uint64_t> first_seq() const {
    std::optional<std::uint64_t> first;
    for (const Item& item : items)
      if (item.seq) first = std::min(first.value_or(*item.seq), *item.seq);
    return first;
  }
};

// What is in a file but perhaps not on disk: bytes since the last sync, and where. Held so that it can be written again
// when an fsync fails.
struct Unsynced {
  struct Piece {
    std::uint64_t offset = 0;
    std::string bytes;
  };
  dev_t device = 0;
  ino_t inode = 0;
  std::vector<Piece> pieces{};
  bool lost = false;  // an fsync failed
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

struct TranscriptWriter::Impl {
  fs::path state_dir;
  OnLines on_lines;
  OnSize on_size;
  std::map<std::string, Pending, std::less<>> pending{};
  std::size_t pending_bytes = 0;
  std::list<OpenFile> open_files{};  // the last used first
  std::unordered_map<std::string, std::list<OpenFile>::iterator> by_name{};
  std::map<std::string, Unsynced, std::less<>> unsynced{};
  std::set<fs::path> new_in{};  // directories that hold files made since the last sync
  std::set<std::string> displaced{};
  std::map<std::string, std::uint64_t> renumbered{};
  std::vector<DuplicateId> doubled{};
  std::map<std::string, FileLock, std::less<>> held{};  // for more than one flush
  std::optional<LockOptions> locks{};
  std::set<std::string, std::less<>> waiting{};
  std::map<std::string, std::string, std::less<>> stuck{};
  std::vector<Eviction> evictions{};

  Result<FileLock> take_lock(std::string_view file);
  Result<std::optional<FileLock>> lock(std::string_view file);
  void renumber(const std::string& file, std::optional<std::uint64_t> from);
  Result<OpenFile*> open(const std::string& file);
  Result<OpenFile*> open_now(const std::string& file);
  void forget(const std::string& file);
  Result<void> flush(const std::string& file, Pending& lines);
  Result<std::uint64_t> write(OpenFile& open, std::uint64_t size, std::string_view bytes);
  Result<std::uint64_t> place(OpenFile& open, std::uint64_t size, const Pending& lines);
  void tell(const OpenFile& open, std::uint64_t size, std::uint64_t landed, std::span<const ByteRange> lines) const;
  Unsynced& unsynced_of(const OpenFile& open);
  Result<void> flush_one(std::map<std::string, Pending, std::less<>>::iterator at);
  void drop(std::map<std::string, Pending, std::less<>>::iterator at);
  Result<void> sync_file(const std::string& file, Unsynced& written);
  Result<void> write_again(int fd, const std::string& file, const Unsynced& written);
};

Result<FileLock> TranscriptWriter::Impl::take_lock(std::string_view file) {
  // A folder or a link where the lock or the file should be: that transcript alone cannot be used.
  const auto unusable = [](Problem why) {
    if (why.code != Code::lock_timeout && why.code != Code::storage_full) why.code = Code::degraded;
    return std::unexpected(std::move(why));
  };
  auto path = resolve_below(state_dir, std::string(file));
  if (!path) return unusable(std::move(path.error()));
  if (auto made = make_dirs(path->parent_path()); !made) return unusable(std::move(made.error()));
  auto got = FileLock::acquire(*path, *locks, evictions);
  if (!got) return unusable(std::move(got.error()));
  return got;
}

// Held while the result lives, where locks are taken at all and the file's is not held already. One that was taken from
// us meanwhile is asked for again: whoever has it now is about to write.
Result<std::optional<FileLock>> TranscriptWriter::Impl::lock(std::string_view file) {
  if (!locks) return std::nullopt;
  if (const auto mine = held.find(file); mine != held.end()) {
    if (mine->second.held()) return std::nullopt;
    held.erase(mine);
  }
  auto got = take_lock(file);
  if (got) {
    if (const auto waited = waiting.find(file); waited != waiting.end()) waiting.erase(waited);
    return std::move(*got);
  }
  if (got.error().code == Code::lock_timeout) waiting.emplace(file);
  return std::unexpected(got.error());
}

void TranscriptWriter::Impl::renumber(const std::string& file, std::optional<std::uint64_t> from) {
  if (!from) return;
  const auto [at, fresh] = renumbered.emplace(file, *from);
  if (!fresh) at->second = std::min(at->second, *from);
}

Result<OpenFile*> TranscriptWriter::Impl::open(const std::string& file) {
  auto opened = open_now(file);
  if (opened) {
    stuck.erase(file);
    return opened;
  }
  Problem why = in_the_way(state_dir / file, std::move(opened.error()));
  if (why.code == Code::degraded) stuck[file] = why.detail;
  return std::unexpected(std::move(why));
}

// The file that stands at the name now; made when there is none.
Result<OpenFile*> TranscriptWriter::Impl::open_now(const std::string& file) {
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
  if (!S_ISREG(opened->st_mode)) return fail(Code::degraded, fmt::format("{} is not a regular file", path->native()));
  if (opened->st_size == 0) fault_point("transcript.created");
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

void TranscriptWriter::Impl::forget(const std::string& file) {
  const auto known = by_name.find(file);
  if (known == by_name.end()) return;
  open_files.erase(known->second);
  by_name.erase(known);
}

Unsynced& TranscriptWriter::Impl::unsynced_of(const OpenFile& open) {
  Unsynced& written = unsynced[open.file];
  if (written.inode != open.inode || written.device != open.device)  // what stood there before is nobody's any more
    written = {.device = open.device, .inode = open.inode};
  return written;
}

// Appends; where the bytes landed: at `size`, unless another program appended since that was looked up.
Result<std::uint64_t> TranscriptWriter::Impl::write(OpenFile& open, std::uint64_t size, std::string_view bytes) {
  if (bytes.empty()) return size;
  unsynced_of(open);
  if (auto written = write_all(open.fd.get(), bytes, open.path.native()); !written) {
    take_back(open, size, bytes);
    return std::unexpected(std::move(written.error()));
  }
  fault_point("transcript.written");
  const auto after = status_of(open.fd.get(), open.path);
  if (after && static_cast<std::uint64_t>(after->st_size) == size + bytes.size()) return size;
  displaced.insert(open.file);
  if (!after || static_cast<std::uint64_t>(after->st_size) < size) return size;
  const auto mixed =
      read_at(open.fd.get(), size, static_cast<std::uint64_t>(after->st_size) - size, open.path.native());
  const std::size_t at = mixed ? mixed->find(bytes) : std::string::npos;
  return at == std::string::npos ? size : size + at;
}

void TranscriptWriter::Impl::tell(const OpenFile& open, std::uint64_t size, std::uint64_t landed,
                                  std::span<const ByteRange> lines) const {
  if (!on_lines) return;
  for (const ByteRange& one : lines) {
    const std::uint64_t moved = one.begin >= size ? landed - size : 0;
    on_lines(open.file, open.inode, {one.begin + moved, one.end + moved});
  }
}

Result<void> TranscriptWriter::Impl::flush(const std::string& file, Pending& lines) {
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
  std::uint64_t after = size;
  if (simply_next) {
    auto landed = write(target, size, lines.bytes);
    if (!landed) return std::unexpected(std::move(landed.error()));
    if (*landed != size) renumber(file, lines.first_seq());
    after = *landed + lines.bytes.size();
    tell(target, *landed, *landed, std::array{ByteRange{*landed, *landed + lines.bytes.size()}});
    pending_bytes -= lines.bytes.size();
    unsynced_of(target).pieces.push_back({.offset = *landed, .bytes = std::move(lines.bytes)});
    lines.bytes.clear();
  } else {
    const auto placed = place(target, size, lines);
    if (!placed) return std::unexpected(placed.error());
    after = *placed;
  }
  target.known = true;
  if (on_size) on_size(file, displaced.contains(file) ? std::nullopt : std::optional(after));
  return {};
}

// Where the file ends then.
Result<std::uint64_t> TranscriptWriter::Impl::place(OpenFile& target, std::uint64_t size,
                                                    const Pending& pending_lines) {
  const std::vector<PlacedLine> lines = pending_lines.lines();
  auto placing = place_lines(target.fd.get(), size, lines, !target.known, target.path.native());
  if (!placing) return std::unexpected(placing.error());
  Unsynced& written = unsynced_of(target);
  if (!placing->holes.empty()) {
    const auto in_place = open_file(target.path, O_WRONLY | O_NONBLOCK);  // O_APPEND would put them at the end
    if (!in_place) return std::unexpected(in_place.error());
    for (const PlacedLine& hole : placing->holes)
      if (auto filled = write_all_at(in_place->get(), hole.line, hole.offset, target.path.native()); !filled)
        return std::unexpected(std::move(filled.error()));
  }
  auto landed = write(target, size, placing->append);
  if (!landed) return std::unexpected(std::move(landed.error()));
  tell(target, size, *landed, placing->lines);
  // Those that stand there from before a crash were perhaps written but never synced.
  for (const PlacedLine& line : lines)
    written.pieces.push_back({.offset = line.offset, .bytes = std::string(line.line)});
  const std::uint64_t end = *landed + placing->append.size();
  written.pieces.push_back({.offset = *landed, .bytes = std::move(placing->append)});
  if (placing->displaced) displaced.insert(target.file);
  renumber(target.file, *landed == size ? placing->renumbered_from : placing->first_seq);
  for (std::string& id : placing->doubled) doubled.push_back({.file = target.file, .id = std::move(id)});
  return end;
}

Result<void> TranscriptWriter::Impl::flush_one(std::map<std::string, Pending, std::less<>>::iterator at) {
  auto held = lock(at->first);
  if (!held) return std::unexpected(held.error());
  if (auto flushed = flush(at->first, at->second); !flushed) return flushed;
  drop(at);
  return {};
}

void TranscriptWriter::Impl::drop(std::map<std::string, Pending, std::less<>>::iterator at) {
  pending_bytes -= at->second.bytes.size();
  pending.erase(at);
}

// After a failed fsync the kernel may have dropped the pages, and the next one would succeed over the hole: they are
// written again first.
Result<void> TranscriptWriter::Impl::sync_file(const std::string& file, Unsynced& written) {
  Fd reopened;
  int fd = -1;
  if (const auto known = by_name.find(file); known != by_name.end() && !written.lost) {
    fd = known->second->fd.get();
  } else {
    struct stat named{};  // removed or replaced by another program: what we wrote is nobody's any more
    if (::lstat((state_dir / file).c_str(), &named) != 0 || named.st_ino != written.inode) return {};
    auto path = resolve_below(state_dir, file);
    if (!path) return std::unexpected(path.error());
    auto again = open_file(*path, (written.lost ? O_RDWR : O_RDONLY) | O_NONBLOCK);
    if (!again && again.error().code == Code::not_found) return {};  // removed by another program
    if (!again) return std::unexpected(again.error());
    reopened = std::move(*again);
    fd = reopened.get();
  }
  if (written.lost)
    if (auto again = write_again(fd, file, written); !again) return again;
  if (::fdatasync(fd) == 0) {
    fault_point("transcript.synced");
    return {};
  }
  written.lost = true;
  return std::unexpected(io_problem("fsync", file, errno));
}

Result<void> TranscriptWriter::Impl::write_again(int fd, const std::string& file, const Unsynced& written) {
  const auto status = status_of(fd, file);
  if (!status) return std::unexpected(status.error());
  if (status->st_ino != written.inode || status->st_dev != written.device) return {};  // another program's file by now
  for (const auto& [offset, bytes] : written.pieces) {
    if (offset > static_cast<std::uint64_t>(status->st_size)) continue;  // another program cut it
    const auto standing = read_at(fd, offset, bytes.size(), file);
    if (!standing) return std::unexpected(standing.error());
    if (!ours_or_hole(*standing, bytes)) continue;  // another program's lines
    if (auto done = write_all_at(fd, bytes, offset, file); !done) return done;
  }
  return {};
}

TranscriptWriter::TranscriptWriter(fs::path state_dir, std::optional<LockOptions> locks, OnLines on_lines,
                                   OnSize on_size)
    : impl_(std::make_unique<Impl>(Impl{.state_dir = std::move(state_dir),
                                        .on_lines = std::move(on_lines),
                                        .on_size = std::move(on_size),
                                        .locks = locks})) {}
TranscriptWriter::~TranscriptWriter() = default;

void TranscriptWriter::add(const LineTarget& place, std::string_view line, std::string_view id) {
  auto at = impl_->pending.find(place.file);
  if (at == impl_->pending.end()) at = impl_->pending.emplace(place.file, Pending{}).first;
  Pending& lines = at->second;
  if (!lines.items.empty() && place.offset != lines.items.front().offset + lines.bytes.size()) lines.contiguous = false;
  lines.items.push_back({.offset = place.offset, .begin = lines.bytes.size(), .id = std::string(id), .seq = place.seq});
  lines.bytes += line;
  impl_->pending_bytes += line.size();
}

std::size_t TranscriptWriter::pending_bytes() const { return impl_->pending_bytes; }

bool TranscriptWriter::has_pending_below(std::string_view dir) const {
  const auto at = impl_->pending.lower_bound(dir);
  return at != impl_->pending.end() && at->first.starts_with(dir);
}

Result<void> TranscriptWriter::flush(std::string_view file) {
  const auto at = impl_->pending.find(file);
  return at == impl_->pending.end() ? Result<void>{} : impl_->flush_one(at);
}

Result<void> TranscriptWriter::flush() {
  Result<void> first;
  for (auto at = impl_->pending.begin(); at != impl_->pending.end();) {
    auto flushed = impl_->flush_one(at++);
    const bool waits =
        !flushed && (flushed.error().code == Code::lock_timeout || flushed.error().code == Code::degraded);
    if (!flushed && !waits && first) first = std::move(flushed);
  }
  return first;
}

Result<void> TranscriptWriter::sync() {
  if (auto flushed = flush(); !flushed) return flushed;
  Result<void> first;
  for (auto at = impl_->unsynced.begin(); at != impl_->unsynced.end();) {
    auto synced = impl_->sync_file(at->first, at->second);
    if (!synced && first) first = synced;
    at = synced ? impl_->unsynced.erase(at) : std::next(at);
  }
  for (auto at = impl_->new_in.begin(); at != impl_->new_in.end();) {
    auto synced = sync_dir(*at);
    struct stat named{};  // a folder that is gone has no names to be kept
    if (!synced && (::lstat(at->c_str(), &named) != 0 || !S_ISDIR(named.st_mode))) synced = {};
    if (!synced && first) first = synced;
    at = synced ? impl_->new_in.erase(at) : std::next(at);
  }
  return first;
}

std::vector<std::string> TranscriptWriter::take_displaced() {
  std::vector<std::string> files(impl_->displaced.begin(), impl_->displaced.end());
  impl_->displaced.clear();
  return files;
}

std::map<std::string, std::uint64_t> TranscriptWriter::take_renumbered() {
  return std::exchange(impl_->renumbered, {});
}

std::vector<TranscriptWriter::DuplicateId> TranscriptWriter::take_duplicate_ids() {
  return std::exchange(impl_->doubled, {});
}

Result<void> TranscriptWriter::hold(const std::string& file) {
  if (!impl_->locks || impl_->held.contains(file)) return {};
  auto got = impl_->take_lock(file);
  if (!got) return std::unexpected(std::move(got.error()));
  impl_->waiting.erase(file);  // its lines are written under this hold
  impl_->held.emplace(file, std::move(*got));
  return {};
}

void TranscriptWriter::release(const std::string& file) { impl_->held.erase(file); }

const std::set<std::string, std::less<>>& TranscriptWriter::waiting() const { return impl_->waiting; }

const std::map<std::string, std::string, std::less<>>& TranscriptWriter::stuck() const { return impl_->stuck; }

std::vector<Eviction> TranscriptWriter::take_evictions() { return std::exchange(impl_->evictions, {}); }

Result<std::optional<FileLock>> TranscriptWriter::close(std::string_view file, bool locked) {
  auto held = locked ? impl_->lock(file) : std::nullopt;
  if (!held) return held;
  if (const auto at = impl_->pending.find(file); at != impl_->pending.end()) {
    if (auto flushed = impl_->flush(at->first, at->second); !flushed) return std::unexpected(flushed.error());
    impl_->drop(at);
  }
  // Under its next name nobody would sync it.
  if (const auto at = impl_->unsynced.find(file); at != impl_->unsynced.end()) {
    if (auto synced = impl_->sync_file(at->first, at->second); !synced) return std::unexpected(synced.error());
    impl_->unsynced.erase(at);
  }
  impl_->forget(std::string(file));
  if (impl_->on_size) impl_->on_size(std::string(file), std::nullopt);
  return held;
}

}  // namespace sessiond
