#include "transcripts/transcript_writer.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <list>
#include <map>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>

#include "store/fault_point.hpp"
#include "store/files.hpp"
#include "store/try.hpp"
#include "transcripts/archive.hpp"
#include "transcripts/lost_lines.hpp"
#include "transcripts/pending_lines.hpp"
#include "transcripts/placing.hpp"
#include "transcripts/sealed_lines.hpp"
#include "transcripts/unsynced_files.hpp"

namespace sessiond::transcripts {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t most_open_files = 256;

using PendingFiles = std::map<std::string, PendingLines, std::less<>>;

struct OpenFile {
  std::string file;
  fs::path path;
  store::Fd fd;
  dev_t device = 0;
  ino_t inode = 0;
  std::uint64_t size = 0;  // at the last stat
  bool known = false;      // we wrote lines to it, so foreign lines come behind them
};

// Removes the part of `bytes` that was written before the write failed, unless a foreign program wrote, too.
void take_back(const OpenFile& open, std::uint64_t old_size, std::string_view bytes) {
  const auto status = store::status_of(open.fd.get(), open.path.native());
  if (!status || static_cast<std::uint64_t>(status->st_size) <= old_size) return;
  const auto length = static_cast<std::uint64_t>(status->st_size) - old_size;
  if (length > bytes.size()) return;
  const auto written = store::read_at(open.fd.get(), old_size, length, open.path.native());
  if (!written || !bytes.starts_with(*written)) return;
  // If this fails, the torn line stays and the next flush completes it.
  [[maybe_unused]] const int cut = ::ftruncate(open.fd.get(), static_cast<off_t>(old_size));
}

}  // namespace

struct TranscriptWriter::Impl {
  fs::path state_dir;
  OnLines on_lines;
  OnSize on_size;
  std::function<bool(std::string_view file)> may_wait{};
  std::function<bool(std::string_view file)> make_up{};   // by make_up_lost_lines()
  std::map<std::string, fs::path, std::less<>> absent{};  // by keep_absent()
  PendingFiles pending{};
  std::size_t pending_bytes = 0;
  std::list<OpenFile> open_files{};  // the most recently used first
  std::unordered_map<std::string, std::list<OpenFile>::iterator> by_name{};
  UnsyncedFiles unsynced;
  std::set<std::string> displaced{};
  std::map<std::string, std::uint64_t> renumbered{};
  std::vector<DuplicateId> doubled{};
  std::map<std::string, lock::FileLock, std::less<>> held{};  // by hold()
  std::optional<lock::LockOptions> locks{};
  std::set<std::string, std::less<>> waiting{};
  std::map<std::string, std::string, std::less<>> stuck{};
  std::vector<lock::Eviction> evictions{};

  Result<void> check_folder(std::string_view file);
  Result<lock::FileLock> take_lock(std::string_view file);
  Result<std::optional<lock::FileLock>> lock(std::string_view file);
  void renumber(const std::string& file, std::optional<std::uint64_t> from);
  Result<OpenFile*> open(const std::string& file);
  Result<OpenFile*> open_now(const std::string& file);
  void forget(const std::string& file);
  Result<void> flush(const std::string& file, PendingLines& lines);
  Result<std::uint64_t> write(OpenFile& open, std::uint64_t size, std::string_view bytes);
  Result<void> make_up_lost(OpenFile& target, const PendingLines& pending_lines);
  Result<std::uint64_t> place(OpenFile& open, std::uint64_t size, const PendingLines& lines);
  void tell(const OpenFile& open, std::uint64_t size, std::uint64_t landed, std::span<const ByteRange> lines) const;
  UnsyncedFiles::Written& unsynced_of(const OpenFile& open) {
    return unsynced.written(open.file, open.device, open.inode);
  }
  UnsyncedFiles::Descriptor descriptor() const {
    return [this](const std::string& file) {
      const auto known = by_name.find(file);
      return known == by_name.end() ? -1 : known->second->fd.get();
    };
  }
  Result<void> flush_one(PendingFiles::iterator at);
  void drop(PendingFiles::iterator at);
};

Result<lock::FileLock> TranscriptWriter::Impl::take_lock(std::string_view file) {
  // A folder or link with the name of the lock or the file makes only this transcript unusable.
  const auto unusable = [](Problem why) {
    if (why.code != Code::lock_timeout && why.code != Code::storage_full) why.code = Code::degraded;
    return std::unexpected(std::move(why));
  };
  TRY(check_folder(file));
  auto path = store::resolve_below(state_dir, std::string(file));
  if (!path) return unusable(store::in_the_way(state_dir / file, std::move(path.error())));
  if (auto made = store::make_dirs(path->parent_path()); !made) return unusable(std::move(made.error()));
  auto got = lock::FileLock::acquire(*path, *locks, evictions);
  if (!got) return unusable(std::move(got.error()));
  return got;
}

// Takes the lock of a file while the result lives; nothing if there are no locks, or hold() has it. A lock that was
// taken from us meanwhile is taken again.
Result<std::optional<lock::FileLock>> TranscriptWriter::Impl::lock(std::string_view file) {
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
  Problem why = store::in_the_way(state_dir / file, std::move(opened.error()));
  // Other work does not wait for a log: whatever keeps it from being opened, its lines wait alone.
  if (why.code != Code::storage_full && may_wait && may_wait(file)) why.code = Code::degraded;
  if (why.code == Code::degraded) stuck[file] = why.detail;
  return std::unexpected(std::move(why));
}

// Fails when the folder of a file that would be made is to stay absent.
Result<void> TranscriptWriter::Impl::check_folder(std::string_view file) {
  for (const auto& [folder, until] : absent) {
    if (!file.starts_with(folder)) continue;
    if (holds_sessions(until)) {
      const fs::path there = until;
      std::erase_if(absent, [&](const auto& one) { return one.second == there; });
      return {};
    }
    return fail(Code::degraded, fmt::format("{} waits: its folder {} is gone or empty", file, until.native()));
  }
  return {};
}

// Opens the file that has the name now, or makes it.
Result<OpenFile*> TranscriptWriter::Impl::open_now(const std::string& file) {
  if (const auto known = by_name.find(file); known != by_name.end()) {
    OpenFile& cached = *known->second;
    const auto status = store::stat_within(cached.path);
    if (status && status->st_ino == cached.inode && status->st_dev == cached.device) {
      cached.size = static_cast<std::uint64_t>(status->st_size);
      open_files.splice(open_files.begin(), open_files, known->second);
      return &cached;
    }
    displaced.insert(file);  // a foreign program removed, renamed or replaced it
    forget(file);
  }
  TRY(auto path, store::resolve_below(state_dir, file));
  if (!store::stat_of(path)) {
    if (errno != ENOENT) return io_fail("stat", path.native());
    TRY(check_folder(file));
    TRY(store::make_dirs(path.parent_path()));
    unsynced.add_folder(path.parent_path());
  }
  // O_APPEND: never overwrites what a foreign program appends between our stat and our write.
  TRY(auto fd, store::open_within(path, O_RDWR | O_APPEND | O_CREAT | O_NONBLOCK));
  TRY(auto opened, store::status_of(fd.get(), path.native()));
  if (!S_ISREG(opened.st_mode)) return fail(Code::degraded, fmt::format("{} is not a regular file", path.native()));
  if (opened.st_size == 0) store::fault_point("transcript.created");
  while (open_files.size() >= most_open_files) forget(std::string(open_files.back().file));
  open_files.push_front({.file = file,
                         .path = std::move(path),
                         .fd = std::move(fd),
                         .device = opened.st_dev,
                         .inode = opened.st_ino,
                         .size = static_cast<std::uint64_t>(opened.st_size)});
  by_name[file] = open_files.begin();
  return &open_files.front();
}

void TranscriptWriter::Impl::forget(const std::string& file) {
  const auto known = by_name.find(file);
  if (known == by_name.end()) return;
  open_files.erase(known->second);
  by_name.erase(known);
}

// Appends bytes. Returns their offset: `size`, unless a foreign program appended since the last stat.
Result<std::uint64_t> TranscriptWriter::Impl::write(OpenFile& open, std::uint64_t size, std::string_view bytes) {
  if (bytes.empty()) return size;
  unsynced_of(open);
  if (auto written = store::write_all(open.fd.get(), bytes, open.path.native()); !written) {
    take_back(open, size, bytes);
    return std::unexpected(std::move(written.error()));
  }
  store::fault_point("transcript.written");
  const auto after = store::status_of(open.fd.get(), open.path.native());
  if (after && static_cast<std::uint64_t>(after->st_size) == size + bytes.size()) return size;
  displaced.insert(open.file);
  if (!after || static_cast<std::uint64_t>(after->st_size) < size) return size;
  const auto mixed =
      store::read_at(open.fd.get(), size, static_cast<std::uint64_t>(after->st_size) - size, open.path.native());
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

Result<void> TranscriptWriter::Impl::flush(const std::string& file, PendingLines& lines) {
  TRY(auto opened, open(file));
  OpenFile& target = *opened;
  if (make_up && make_up(file)) TRY(make_up_lost(target, lines));
  const std::uint64_t size = target.size;
  bool simply_next = lines.contiguous && lines.items.front().offset == size;
  if (simply_next && size > 0) {
    TRY(auto last, store::read_at(target.fd.get(), size - 1, 1, target.path.native()));
    simply_next = last == "\n";
  }
  std::uint64_t after = 0;  // the file's new size
  if (simply_next) {
    TRY(auto landed, write(target, size, lines.bytes));
    if (landed != size) renumber(file, lines.first_seq());
    after = landed + lines.bytes.size();
    if (landed != size && seal::is_sealed(lines.bytes)) {  // not for the seq that they have now: written once more
      TRY(after, place(target, after, lines));
      if (on_size) on_size(file, std::nullopt);
      return {};
    }
    tell(target, landed, landed, std::array{ByteRange{landed, landed + lines.bytes.size()}});
    pending_bytes -= lines.bytes.size();
    unsynced_of(target).pieces.push_back({.offset = landed, .bytes = std::move(lines.bytes)});
    lines.bytes.clear();
  } else {
    TRY(after, place(target, size, lines));
  }
  target.known = true;
  if (on_size) on_size(file, displaced.contains(file) ? std::nullopt : std::optional(after));
  return {};
}

// Writes the lines that belong behind the end of the file, with lost lines between. They are then found there.
Result<void> TranscriptWriter::Impl::make_up_lost(OpenFile& target, const PendingLines& pending_lines) {
  std::vector<PlacedLine> lines = pending_lines.lines();
  std::ranges::sort(lines, {}, &PlacedLine::offset);
  const auto beyond = std::ranges::find_if(lines, [&](const PlacedLine& line) { return line.offset > target.size; });
  if (beyond == lines.end()) return {};
  TRY(LostLines made, LostLines::behind(target.fd.get(), target.size, target.path));
  for (const PlacedLine& line : lines)
    if (line.offset >= target.size) made.add(line);
  const std::string text = std::move(made).text();
  TRY(write(target, target.size, text));
  TRY(const auto now, store::status_of(target.fd.get(), target.path.native()));
  target.size = static_cast<std::uint64_t>(now.st_size);
  return {};
}

// Writes lines that are not simply next. Returns the new size of the file.
Result<std::uint64_t> TranscriptWriter::Impl::place(OpenFile& target, std::uint64_t size,
                                                    const PendingLines& pending_lines) {
  const std::vector<PlacedLine> lines = pending_lines.lines();
  TRY(auto placing, place_lines(target.fd.get(), size, lines, !target.known, target.path.native()));
  UnsyncedFiles::Written& written = unsynced_of(target);
  if (!placing.holes.empty()) {
    TRY(const auto in_place,
        store::open_within(target.path, O_WRONLY | O_NONBLOCK));  // O_APPEND would write them at the end
    for (const PlacedLine& hole : placing.holes)
      TRY(store::write_all_at(in_place.get(), hole.line, hole.offset, target.path.native()));
  }
  TRY(auto landed, write(target, size, placing.append));
  tell(target, size, landed, placing.lines);
  // Lines that were there already may be from before a crash and not on disk yet.
  for (const PlacedLine& line : lines)
    written.pieces.push_back({.offset = line.offset, .bytes = std::string(line.line)});
  const std::uint64_t end = landed + placing.append.size();
  written.pieces.push_back({.offset = landed, .bytes = std::move(placing.append)});
  if (placing.displaced) displaced.insert(target.file);
  renumber(target.file, landed == size ? placing.renumbered_from : placing.first_seq);
  for (std::string& id : placing.doubled) doubled.push_back({.file = target.file, .id = std::move(id)});
  return end;
}

Result<void> TranscriptWriter::Impl::flush_one(PendingFiles::iterator at) {
  TRY(const auto held_now, lock(at->first));
  TRY(flush(at->first, at->second));
  drop(at);
  return {};
}

void TranscriptWriter::Impl::drop(PendingFiles::iterator at) {
  pending_bytes -= at->second.bytes.size();
  pending.erase(at);
}

TranscriptWriter::TranscriptWriter(fs::path state_dir, std::optional<lock::LockOptions> locks, OnLines on_lines,
                                   OnSize on_size)
    : impl_(std::make_unique<Impl>(Impl{.state_dir = state_dir,
                                        .on_lines = std::move(on_lines),
                                        .on_size = std::move(on_size),
                                        .unsynced = UnsyncedFiles(std::move(state_dir)),
                                        .locks = locks})) {}
TranscriptWriter::~TranscriptWriter() = default;

void TranscriptWriter::add(const LineTarget& place, std::string_view line, std::string_view id) {
  PendingLines& lines = impl_->pending[place.file];
  if (!lines.items.empty() && place.offset != lines.items.front().offset + lines.bytes.size()) lines.contiguous = false;
  lines.items.push_back({.offset = place.offset, .begin = lines.bytes.size(), .id = std::string(id), .seq = place.seq});
  lines.bytes += line;
  impl_->pending_bytes += line.size();
}

std::size_t TranscriptWriter::pending_bytes() const { return impl_->pending_bytes; }

void TranscriptWriter::let_wait(std::function<bool(std::string_view file)> which) {
  impl_->may_wait = std::move(which);
}

void TranscriptWriter::make_up_lost_lines(std::function<bool(std::string_view file)> where) {
  impl_->make_up = std::move(where);
}

bool TranscriptWriter::makes_up_lost_lines(std::string_view file) const {
  return impl_->make_up && impl_->make_up(file);
}

void TranscriptWriter::keep_absent(std::string folder, fs::path until) {
  impl_->absent.insert_or_assign(std::move(folder), std::move(until));
}

void TranscriptWriter::make_again(const fs::path& until) {
  std::erase_if(impl_->absent, [&](const auto& one) { return one.second == until; });
}

void TranscriptWriter::discard(std::string_view file) {
  const std::string name(file);
  if (const auto at = impl_->pending.find(file); at != impl_->pending.end()) impl_->drop(at);
  impl_->forget(name);
  impl_->stuck.erase(name);
  impl_->waiting.erase(name);
  if (impl_->on_size) impl_->on_size(name, std::nullopt);
}

bool TranscriptWriter::has_pending_below(std::string_view dir) const {
  assert(dir.ends_with('/'));
  const auto at = impl_->pending.lower_bound(dir);
  return at != impl_->pending.end() && at->first.starts_with(dir);
}

Result<void> TranscriptWriter::flush(std::string_view file) {
  const auto at = impl_->pending.find(file);
  return at == impl_->pending.end() ? Result<void>{} : impl_->flush_one(at);
}

Result<void> TranscriptWriter::flush() { return flush_below(""); }

Result<void> TranscriptWriter::flush_below(std::string_view dir) {
  Result<void> first;
  for (auto at = impl_->pending.lower_bound(dir); at != impl_->pending.end() && at->first.starts_with(dir);) {
    auto flushed = impl_->flush_one(at++);
    const bool waits =
        !flushed && (flushed.error().code == Code::lock_timeout || flushed.error().code == Code::degraded);
    if (!flushed && !waits && first) first = std::move(flushed);
  }
  return first;
}

Result<void> TranscriptWriter::sync() {
  TRY(flush());
  return impl_->unsynced.sync(impl_->descriptor());
}

std::vector<std::string> TranscriptWriter::take_displaced() {
  const auto files = std::exchange(impl_->displaced, {});
  return {files.begin(), files.end()};
}

std::map<std::string, std::uint64_t> TranscriptWriter::take_renumbered() {
  return std::exchange(impl_->renumbered, {});
}

std::vector<TranscriptWriter::DuplicateId> TranscriptWriter::take_duplicate_ids() {
  return std::exchange(impl_->doubled, {});
}

Result<void> TranscriptWriter::hold(const std::string& file) {
  if (!impl_->locks || impl_->held.contains(file)) return {};
  TRY(auto got, impl_->take_lock(file));
  impl_->waiting.erase(file);  // its lines are written under this hold
  impl_->held.emplace(file, std::move(got));
  return {};
}

void TranscriptWriter::release(const std::string& file) { impl_->held.erase(file); }
const std::set<std::string, std::less<>>& TranscriptWriter::waiting() const { return impl_->waiting; }
const std::map<std::string, std::string, std::less<>>& TranscriptWriter::stuck() const { return impl_->stuck; }
std::vector<lock::Eviction> TranscriptWriter::take_evictions() { return std::exchange(impl_->evictions, {}); }

Result<std::optional<lock::FileLock>> TranscriptWriter::close(std::string_view file, bool locked) {
  auto held = locked ? impl_->lock(file) : std::nullopt;
  if (!held) return held;
  if (const auto at = impl_->pending.find(file); at != impl_->pending.end()) {
    TRY(impl_->flush(at->first, at->second));
    impl_->drop(at);
  }
  TRY(impl_->unsynced.sync(file, impl_->descriptor()));  // it could not be found under its next name
  discard(file);
  return held;
}

}  // namespace sessiond::transcripts
