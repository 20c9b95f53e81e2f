#include "transcripts/transcript.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <unordered_set>
#include <utility>

#include "store/json/raw_json.hpp"
#include "store/limits.hpp"
#include "store/try.hpp"
#include "transcripts/entry.hpp"
#include "transcripts/kept_index.hpp"
#include "transcripts/line_index.hpp"
#include "transcripts/line_reader.hpp"
#include "transcripts/page_builder.hpp"
#include "transcripts/shown_lines.hpp"

namespace sessiond::transcripts {
namespace {

constexpr std::uint64_t no_sidecar_below = 256 << 10;
constexpr std::uint64_t lines_unsaved = 4 << 20;  // bytes that the next start may have to scan again, in about 3 ms
constexpr std::uint64_t near_end = 256 << 10;     // bytes in which ids are searched without an index

}  // namespace

struct Transcript::Impl {
  std::filesystem::path path;
  std::filesystem::path sidecar;
  store::Fd fd{};
  store::FileIdentity seen{};  // the file as the index covers it; none: not refreshed to the end
  LineIndex index{};
  // These two never cover more than `index`.
  KeptIndex<IdIndex> ids{};
  KeptIndex<Landmarks> landmarks{};
  Landmarks with_tail{};  // and a last line without '\n'
  TranscriptTail tail{};
  ShownLines shown{};
  std::uint64_t saved = 0;  // bytes that the line index's sidecar covers

  Result<bool> refresh(std::uint64_t budget);
  Result<bool> look(const struct stat& status, std::uint64_t budget);
  Result<void> read_tail();
  Result<void> scan_ids();
  Result<const Landmarks*> scan_landmarks(std::optional<std::int64_t> doom_count);
  Result<void> resolve(Landmarks& marks);
  void forget();
  void load_sidecar();
  Result<std::uint64_t> offset_of(LineReader& reader, std::uint64_t seq) const;
  Result<TranscriptPage> page(const PageQuery& query) const;
  Result<bool> page_upwards(LineReader& reader, std::uint64_t low, std::uint64_t high, PageBuilder& page) const;
  Result<bool> page_downwards(LineReader& reader, std::uint64_t low, std::uint64_t high, PageBuilder& page) const;
  Result<Found> find(std::span<const std::string> wanted, const IsMeant& is_meant);
  Result<std::vector<WholeLine>> whole_lines(std::uint64_t begin, std::uint64_t end, std::size_t max_bytes) const;
  LineReader reader() const { return {fd.get(), tail.size, path.native()}; }

  // Calls `read` a second time with a new index if it fails: the file may have been rewritten meanwhile.
  template <class Read>
  auto with_fresh_index_on_failure(Read read) -> decltype(read()) {
    if (auto result = read(); result) return result;
    seen = {};
    forget();
    TRY(refresh(whole));
    return read();
  }
};

void Transcript::Impl::forget() {
  index = {};
  ids.forget();
  landmarks.forget();
  saved = 0;
}

void Transcript::Impl::load_sidecar() {
  if (sidecar.empty()) return;
  const auto bytes = store::read_file(sidecar);  // if there is none, the transcript is scanned
  if (!bytes) return;
  if (auto stored = decode_sidecar(*bytes, seen.inode)) {
    index = std::move(*stored);
    saved = index.covered.bytes;
  }
}

Result<bool> Transcript::Impl::refresh(std::uint64_t budget) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0) {
    const int error = errno;
    if (error != ENOENT) return std::unexpected(store::in_the_way(path, io_problem("stat", path.native(), error)));
    fd = {};
    seen = {};
    forget();
    tail = {};
    return true;
  }
  if (!S_ISREG(status.st_mode)) return fail(Code::degraded, fmt::format("{} is not a regular file", path.native()));
  if (fd && seen == store::identity(status)) return true;
  auto looked = look(status, budget);
  if (!looked || !*looked) seen = {};
  return looked;
}

Result<bool> Transcript::Impl::look(const struct stat& at_path, std::uint64_t budget) {
  // The descriptor is open, so no other file can have got its inode.
  struct stat status{};
  bool open =
      fd && ::fstat(fd.get(), &status) == 0 && status.st_ino == at_path.st_ino && status.st_dev == at_path.st_dev;
  if (!open) {
    auto opened = store::open_file(path, O_RDONLY | O_NONBLOCK);
    if (!opened && opened.error().code != Code::not_found)
      return std::unexpected(store::in_the_way(path, std::move(opened.error())));
    TRY(fd, std::move(opened));
    forget();
    ids.forget_file();
    landmarks.forget_file();
    TRY(status, store::status_of(fd.get(), path.native()));
  }
  seen = store::identity(status);
  if (!open) load_sidecar();
  TRY(auto fits, index.covered.fits(fd.get(), seen.size, path.native()));
  if (!fits) forget();
  auto scanned = index.scan(fd.get(), seen.size, path.native(), budget);
  if (!scanned || !*scanned) return scanned;
  TRY(read_tail());
  return true;
}

Result<void> Transcript::Impl::read_tail() {
  tail = {.exists = true,
          .has_header = index.has_header,
          .ends_in_newline = index.covered.bytes == seen.size,
          .size = seen.size,
          .count = index.lines,
          .last_id = index.last_id};
  if (tail.ends_in_newline) return {};
  LineReader lines = reader();
  TRY(auto line, lines.text(index.covered.bytes, tail.size));
  const bool first = index.offsets.empty();
  if (first && tail.size <= longest_header && is_header(line)) {
    tail.has_header = true;
    return {};
  }
  if (entry_type(line) != "unreadable") tail.last_id = entry_id(line, tail.count);
  ++tail.count;
  return {};
}

Result<std::uint64_t> Transcript::Impl::offset_of(LineReader& lines, std::uint64_t seq) const {
  if (seq == tail.count) return tail.size;
  if (index.offsets.empty()) return 0;  // the file is one line without a newline
  std::uint64_t offset = index.offsets[seq / LineIndex::stride];
  TRY(auto begins, lines.begins_line(offset));
  if (!begins) return fail(Code::internal, fmt::format("{} was rewritten by a foreign program", path.native()));
  for (std::uint64_t skip = seq % LineIndex::stride; skip > 0; --skip) {
    TRY(offset, lines.end_of(offset));
  }
  return offset;
}

Result<bool> Transcript::Impl::page_upwards(LineReader& lines, std::uint64_t low, std::uint64_t high,
                                            PageBuilder& page) const {
  TRY(auto begin, offset_of(lines, low));
  for (std::uint64_t seq = low; seq < high; ++seq) {
    if (page.full()) return true;
    TRY(auto end, lines.end_of(begin));
    TRY(auto line, lines.text(begin, end));
    if (!page.take(seq, line)) return true;
    begin = end;
  }
  return false;
}

Result<bool> Transcript::Impl::page_downwards(LineReader& lines, std::uint64_t low, std::uint64_t high,
                                              PageBuilder& page) const {
  TRY(auto end, offset_of(lines, high));
  for (std::uint64_t seq = high; seq-- > low;) {
    if (page.full()) return true;
    TRY(auto begin, lines.begin_of(end));
    TRY(auto line, lines.text(begin, end));
    if (!page.take(seq, line)) return true;
    end = begin;
  }
  return false;
}

Result<TranscriptPage> Transcript::Impl::page(const PageQuery& query) const {
  const auto [low, high] = page_range(query, tail.count);
  PageBuilder page(query);
  if (low >= high) return std::move(page).finish(false);
  LineReader lines = reader();
  TRY(auto more, query.descending ? page_downwards(lines, low, high, page) : page_upwards(lines, low, high, page));
  return std::move(page).finish(more);
}

// Extends the id index to all whole lines.
Result<void> Transcript::Impl::scan_ids() {
  ids.load(id_sidecar(sidecar), index, fd.get(), seen, path.native());
  if (index.offsets.empty()) return {};
  auto scanned = ids.now.scan(fd.get(), index.offsets.front(), index.covered.bytes, path.native());
  if (!scanned) ids.forget();
  return scanned;
}

// Extends the landmarks to all lines.
Result<const Landmarks*> Transcript::Impl::scan_landmarks(std::optional<std::int64_t> doom_count) {
  landmarks.load(landmarks_sidecar(sidecar), index, fd.get(), seen, path.native());
  Landmarks& now = landmarks.now;
  if (now.lines != 0 && doom_count && now.doom_count != *doom_count) now.meter.reset();
  now.doom_count = doom_count.value_or(now.doom_count);
  if (!index.offsets.empty()) {
    auto scanned = now.scan(fd.get(), index.offsets.front(), index.covered.bytes, path.native());
    if (!scanned) {
      landmarks.forget();
      return std::unexpected(std::move(scanned.error()));
    }
  }
  TRY(resolve(now));
  if (tail.count == now.lines) return &now;
  with_tail = now;
  LineReader lines = reader();
  TRY(const auto line, lines.text(index.covered.bytes, tail.size));
  with_tail.add(line);
  TRY(resolve(with_tail));
  return &with_tail;
}

Result<void> Transcript::Impl::resolve(Landmarks& marks) {
  if (marks.unresolved.empty()) return {};
  return marks.resolve([this](const std::vector<std::string>& parents, const IsMeant& is_parent) -> Result<void> {
    TRY(find(parents, is_parent));
    return {};
  });
}

Result<Transcript::Found> Transcript::Impl::find(std::span<const std::string> wanted, const IsMeant& is_meant) {
  Found found;
  std::unordered_set<std::string_view> open(wanted.begin(), wanted.end());
  LineReader lines = reader();
  const auto check_line = [&](std::uint64_t seq, std::string_view line) {
    const std::string id = entry_id(line, seq);
    if (!open.contains(id) || (is_meant && !is_meant(id, seq))) return;
    open.erase(id);
    found.emplace(id, StoredLine{.seq = seq, .line = std::string(line)});
  };
  // Most searches are for recent entries, and a last line without '\n' is in no index.
  const std::uint64_t floor = std::min(tail.size - std::min(tail.size, near_end), index.covered.bytes);
  std::uint64_t seq = tail.count;
  for (std::uint64_t end = tail.size; seq > 0 && end > floor && !open.empty();) {
    TRY(auto begin, lines.begin_of(end));
    TRY(auto line, lines.text(begin, end));
    check_line(--seq, line);
    end = begin;
  }
  if (seq == 0 || open.empty()) return found;
  TRY(scan_ids());
  IdSet hashes(open.size());
  std::uint64_t low_bits = 0;  // exclude most hashes without a lookup
  for (const std::string_view id : open) {
    hashes.insert(id_hash(id));
    low_bits |= 1ULL << (id_hash(id) & 63);
  }
  const std::vector<std::uint32_t>& all = ids.now.hashes;
  for (seq = std::min<std::uint64_t>(seq, all.size()); seq-- > 0 && !open.empty();) {
    const std::uint32_t hash = all[seq];
    if ((low_bits >> (hash & 63) & 1) == 0 || !hashes.contains(hash)) continue;
    TRY(auto begin, offset_of(lines, seq));
    TRY(auto end, lines.end_of(begin));
    TRY(auto line, lines.text(begin, end));
    check_line(seq, line);
  }
  return found;
}

Result<std::vector<WholeLine>> Transcript::Impl::whole_lines(std::uint64_t begin, std::uint64_t end,
                                                             std::size_t max_bytes) const {
  std::vector<WholeLine> lines;
  end = std::min(end, index.covered.bytes);
  if (begin >= end) return lines;
  // Starts at the nearest entry with a known offset. Before the first one there is only the header.
  LineReader reader(fd.get(), index.covered.bytes, path.native());
  const auto after = std::ranges::upper_bound(index.offsets, begin);
  const auto nearest = after == index.offsets.begin() ? after : after - 1;
  std::uint64_t seq = static_cast<std::uint64_t>(nearest - index.offsets.begin()) * LineIndex::stride;
  std::size_t bytes = 0;
  for (std::uint64_t at = *nearest; at < end; ++seq) {
    TRY(auto line_end, reader.end_of(at));
    if (at >= begin) {
      TRY(auto text, reader.text(at, line_end));
      bytes += text.size();
      if (!lines.empty() && bytes > max_bytes) break;
      lines.push_back({.stored = {.seq = seq, .line = std::string(text)}, .end = line_end});
    }
    at = line_end;
  }
  return lines;
}

Transcript::Transcript(std::filesystem::path path, std::filesystem::path sidecar)
    : impl_(std::make_unique<Impl>(Impl{.path = std::move(path), .sidecar = std::move(sidecar)})) {}
Transcript::~Transcript() = default;

Result<std::unique_ptr<Transcript>> Transcript::open(std::filesystem::path path, std::filesystem::path sidecar) {
  auto transcript = std::make_unique<Transcript>(std::move(path), std::move(sidecar));
  TRY(transcript->refresh());
  return transcript;
}

std::filesystem::path Transcript::id_sidecar(const std::filesystem::path& sidecar) {
  return sidecar.empty() ? sidecar : std::filesystem::path(sidecar).replace_extension(".ids");
}

std::filesystem::path Transcript::landmarks_sidecar(const std::filesystem::path& sidecar) {
  return sidecar.empty() ? sidecar : std::filesystem::path(sidecar).replace_extension(".marks");
}

Result<bool> Transcript::refresh(std::uint64_t budget) { return impl_->refresh(budget); }
const TranscriptTail& Transcript::tail() const { return impl_->tail; }

Result<TranscriptPage> Transcript::page(const PageQuery& query) {
  return impl_->with_fresh_index_on_failure([&] { return impl_->page(query); });
}

std::string_view Transcript::show(const StoredLine& line) { return impl_->shown.show(line.line, line.seq); }

Result<Transcript::Found> Transcript::find(std::span<const std::string> entry_ids, const IsMeant& is_meant) {
  return impl_->with_fresh_index_on_failure([&] { return impl_->find(entry_ids, is_meant); });
}

Result<std::vector<WholeLine>> Transcript::whole_lines(std::uint64_t begin, std::uint64_t end, std::size_t max_bytes) {
  return impl_->with_fresh_index_on_failure([&] { return impl_->whole_lines(begin, end, max_bytes); });
}

Result<std::optional<StoredLine>> Transcript::find(std::string_view entry_id, const IsMeant& is_meant) {
  const std::string id(entry_id);
  TRY(auto found, find(std::span(&id, 1), is_meant));
  if (found.empty()) return std::nullopt;
  return std::move(found.begin()->second);
}

std::optional<std::int64_t> Transcript::started() const {
  if (!impl_->tail.has_header) return {};
  LineReader lines = impl_->reader();
  const auto end = lines.end_of(0);
  if (!end) return {};
  const auto line = lines.text(0, *end);
  return line ? parse_iso_time(json::string_at(*line, "timestamp").value_or("")) : std::nullopt;
}

Result<IdSet> Transcript::ids() {
  return impl_->with_fresh_index_on_failure([&]() -> Result<IdSet> {
    TRY(impl_->scan_ids());
    IdSet set(impl_->tail.count);
    const std::vector<std::uint32_t>& hashes = impl_->ids.now.hashes;
    for (const std::uint32_t hash : hashes) set.insert(hash);
    if (impl_->tail.count == hashes.size()) return set;
    LineReader lines = impl_->reader();  // for a last line without a newline
    TRY(auto line, lines.text(impl_->index.covered.bytes, impl_->tail.size));
    set.insert(id_hash(entry_id(line, hashes.size())));
    return set;
  });
}

Result<const Landmarks*> Transcript::landmarks(std::optional<std::int64_t> doom_count) {
  return impl_->with_fresh_index_on_failure([&] { return impl_->scan_landmarks(doom_count); });
}

void Transcript::set_meter(context::Meter meter) {
  if (impl_->tail.count == impl_->landmarks.now.lines) impl_->landmarks.now.meter = std::move(meter);
}

Result<void> Transcript::save_sidecars() {
  Impl& own = *impl_;
  const std::uint64_t lines = own.index.covered.bytes;
  // If it cannot be written, it is tried again after it has grown as much again.
  if (!own.sidecar.empty() && lines >= own.saved + (own.saved == 0 ? no_sidecar_below : lines_unsaved)) {
    own.saved = lines;
    TRY(store::make_dirs(own.sidecar.parent_path()));
    TRY(store::replace_file(own.sidecar, encode_sidecar(own.index, own.seen.inode)));
  }
  if (own.sidecar.empty()) return {};
  if (own.ids.has_grown(no_sidecar_below)) TRY(own.ids.save(id_sidecar(own.sidecar), own.seen.inode));
  if (own.landmarks.has_grown(no_sidecar_below))
    TRY(own.landmarks.save(landmarks_sidecar(own.sidecar), own.seen.inode));
  return {};
}

}  // namespace sessiond::transcripts
