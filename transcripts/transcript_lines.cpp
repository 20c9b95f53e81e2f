// Reads lines of a transcript by its indexes.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "transcripts/entry.hpp"
#include "transcripts/transcript_impl.hpp"

namespace sessiond::transcripts {
namespace {

constexpr std::uint64_t near_end = 256 << 10;  // bytes in which ids are searched without an index

}  // namespace

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
    TRY(auto line, lines.line(begin, end, seq));
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
    TRY(auto line, lines.line(begin, end, seq));
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

Result<void> Transcript::Impl::spend(std::uint64_t bytes) {
  if (bytes > allowed) {
    stopped = true;
    return fail(Code::internal, fmt::format("{} is too long to be read at once", path.native()));
  }
  if (allowed != whole) allowed -= bytes;
  return {};
}

// Goes on from the last entry that was read where that is nearer than the last one whose offset is known.
Result<void> Transcript::Impl::each(std::span<const SeqSpan> spans, const Take& take) {
  LineReader lines = reader();
  std::uint64_t next = 0;  // the entry that begins at `at`
  std::optional<std::uint64_t> at;
  for (const SeqSpan& span : spans) {
    const std::uint64_t end = std::min(span.last + 1, tail.count);
    if (span.first >= end) continue;
    if (!at || span.first < next || span.first / LineIndex::stride > next / LineIndex::stride) {
      TRY(at, offset_of(lines, span.first));
      next = span.first;
    }
    for (; next < end; ++next) {
      TRY(const auto line_end, lines.end_of(*at));
      if (next >= span.first) {
        TRY(spend(line_end - *at));
        TRY(const auto line, lines.line(*at, line_end, next));
        if (!take(next, line)) return {};
      }
      at = line_end;
    }
  }
  return {};
}

// Extends the id index to all whole lines.
Result<void> Transcript::Impl::scan_ids() {
  ids.load(id_sidecar(sidecar), index, fd.get(), seen, path.native());
  if (index.offsets.empty()) return {};
  TRY(spend(index.covered.bytes - ids.now.covered.bytes));
  auto scanned = ids.now.scan(fd.get(), index.offsets.front(), index.covered.bytes, path.native());
  if (!scanned) ids.forget();
  return scanned;
}

// Extends the landmarks to all lines.
Result<const Landmarks*> Transcript::Impl::scan_landmarks(std::optional<std::int64_t> doom_count) {
  if (!landmarks.is_loaded()) landmarks.load(landmarks_sidecar(sidecar), index, fd.get(), seen, path.native());
  Landmarks& now = landmarks.now;
  if (now.lines != 0 && doom_count && now.doom_count != *doom_count) now.meter.reset();
  now.doom_count = doom_count.value_or(now.doom_count);
  if (!index.offsets.empty()) {
    TRY(spend(index.covered.bytes - now.covered.bytes));
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
  TRY(const auto line, lines.line(index.covered.bytes, tail.size, now.lines));
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
    TRY(auto line, lines.line(begin, end, seq - 1));
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
    TRY(spend(end - begin));
    TRY(auto line, lines.line(begin, end, seq));
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
      TRY(auto text, reader.line(at, line_end, seq));
      bytes += text.size();
      if (!lines.empty() && bytes > max_bytes) break;
      lines.push_back({.stored = {.seq = seq, .line = std::string(text)}, .end = line_end});
    }
    at = line_end;
  }
  return lines;
}

}  // namespace sessiond::transcripts
