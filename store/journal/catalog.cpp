#include "store/journal/catalog.hpp"

#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <system_error>
#include <utility>

#include "store/fault_point.hpp"
#include "store/files.hpp"
#include "store/try.hpp"

namespace sessiond::journal {
namespace {

// Removes a segment, its index, and the torn batches that were cut off it. False: the segment is still there.
bool remove_segment(const std::filesystem::path& segment) {
  if (::unlink(segment.c_str()) != 0 && errno != ENOENT) return false;
  store::fault_point("journal.segment_removed");
  std::error_code ignored;
  std::filesystem::remove(index_path(segment), ignored);
  std::vector<std::filesystem::path> torn;
  const std::string prefix = segment.filename().native() + ".torn.";
  store::each_in(segment.parent_path(), [&](const std::filesystem::directory_entry& entry) {
    if (entry.path().filename().native().starts_with(prefix)) torn.push_back(entry.path());
  });
  for (const auto& path : torn) std::filesystem::remove(path, ignored);
  return true;
}

Segment without_index(const Segment& segment) {
  return {
      .name = segment.name, .path = segment.path, .next = segment.next, .end = segment.end, .serial = segment.serial};
}

// Segments before the one that was live at `until` are sealed: their ends are final.
std::optional<Catalog::SegmentPart> part_of(const Segment& segment, const Catalog::End& until) {
  if (segment.serial > until.serial) return std::nullopt;
  return Catalog::SegmentPart{.path = segment.path,
                              .offset = 0,
                              .end = segment.serial == until.serial ? until.bytes : segment.end,
                              .serial = segment.serial};
}

}  // namespace

Catalog::Catalog(std::vector<Segment> segments)
    : segments_(std::move(segments)), head_(segments_.back().next - 1), oldest_(segments_.front().name.first) {
  for (Segment& segment : segments_) segment.serial = ++last_serial_;
}

std::uint64_t Catalog::bytes_after(std::uint64_t seq) const {
  const std::scoped_lock lock(mutex_);
  std::uint64_t bytes = 0;
  for (auto it = segments_.rbegin(); it != segments_.rend() && it->next > seq + 1; ++it) {
    const std::uint64_t first = it->name.first;
    if (seq < first) {
      bytes += it->end;
    } else if (it->index) {
      bytes += it->end - it->index->offset_for(seq + 1);
    } else {
      const double share = static_cast<double>(it->next - 1 - seq) / static_cast<double>(it->next - first);
      bytes += static_cast<std::uint64_t>(share * static_cast<double>(it->end));
    }
  }
  return bytes;
}

Segment Catalog::live() const {
  const std::scoped_lock lock(mutex_);
  return without_index(segments_.back());
}

void Catalog::extend(std::uint64_t first, std::uint64_t next, std::uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  Segment& live = segments_.back();
  assert(live.index && first == live.next);
  live.index->add(first, live.end);
  live.end += bytes;
  live.next = next;
  head_.store(next - 1, std::memory_order_release);
}

void Catalog::begin(Segment segment) {
  std::vector<Segment> overridden;
  std::optional<SealedIndex> sealed;
  std::filesystem::path sealed_path;
  {
    const std::scoped_lock lock(mutex_);
    while (!segments_.empty() && segments_.back().name.first >= segment.name.first) {
      overridden.push_back(std::move(segments_.back()));
      segments_.pop_back();
    }
    if (!segments_.empty() && segments_.back().index) {
      const Segment& last = segments_.back();
      sealed = SealedIndex{.first = last.name.first, .next = last.next, .end = last.end, .index = *last.index};
      sealed_path = last.path;
    }
    segment.serial = ++last_serial_;
    segments_.push_back(std::move(segment));
    if (segments_.size() > indexes_kept) segments_[segments_.size() - 1 - indexes_kept].index.reset();
    oldest_.store(segments_.front().name.first, std::memory_order_release);
  }
  if (!overridden.empty()) {
    const std::scoped_lock removing(removing_);
    for (const Segment& gone : overridden) {
      remove_files(gone.path);
      store::fault_point("journal.overridden_removed");
    }
  }
  // A failure only costs a scan at the next start.
  if (sealed) static_cast<void>(save_index(sealed_path, *sealed));
  store::fault_point("journal.segment_sealed");
}

Catalog::End Catalog::end() const {
  const std::scoped_lock lock(mutex_);
  const Segment& live = segments_.back();
  return {.serial = live.serial, .bytes = live.end, .head = live.next - 1};
}

std::optional<Catalog::SegmentPart> Catalog::locate(std::uint64_t from, const End& until) const {
  std::optional<SegmentPart> part;
  std::uint64_t first = 0;
  std::uint64_t next = 0;
  {
    const std::scoped_lock lock(mutex_);
    // `next == from` too: batches without events may stand at a segment's end.
    const auto it = std::ranges::lower_bound(segments_, from, {}, &Segment::next);
    if (it == segments_.end()) return std::nullopt;
    part = part_of(*it, until);
    if (!part) return std::nullopt;
    first = it->name.first;
    next = it->next;
    if (it->index) {
      part->offset = std::min(it->index->offset_for(from), part->end);
      return part;
    }
  }
  if (const auto sealed = load_index(part->path); sealed && sealed->first == first && sealed->next == next)
    part->offset = std::min(sealed->index.offset_for(from), part->end);
  return part;
}

std::optional<Catalog::SegmentPart> Catalog::following(std::uint64_t serial, const End& until) const {
  const std::scoped_lock lock(mutex_);
  const auto it = std::ranges::upper_bound(segments_, serial, {}, &Segment::serial);
  if (it == segments_.end()) return std::nullopt;
  return part_of(*it, until);
}

Result<std::uint64_t> Catalog::each(const OnSegment& call) const {
  const std::scoped_lock kept(removing_);
  std::vector<std::pair<std::filesystem::path, std::uint64_t>> segments;
  std::uint64_t last = 0;
  {
    const std::scoped_lock lock(mutex_);
    for (const Segment& segment : segments_) segments.emplace_back(segment.path, segment.end);
    last = segments_.back().next - 1;
  }
  for (const auto& [path, bytes] : segments) {
    TRY(call(path, bytes));
  }
  return last;
}

bool Catalog::holds(std::uint64_t serial) const {
  const std::scoped_lock lock(mutex_);
  return std::ranges::binary_search(segments_, serial, {}, &Segment::serial);
}

std::vector<Segment> Catalog::sealed() const {
  const std::scoped_lock lock(mutex_);
  std::vector<Segment> out;
  for (std::size_t i = 0; i + 1 < segments_.size(); ++i) out.push_back(without_index(segments_[i]));
  return out;
}

void Catalog::note_damage(const std::filesystem::path& segment, std::string what) const {
  constexpr std::size_t most = 20;  // of one segment
  const std::scoped_lock lock(mutex_);
  std::set<std::string>& known = damage_[segment];
  if (known.size() < most) known.insert(std::move(what));
}

std::vector<std::string> Catalog::damage() const {
  const std::scoped_lock lock(mutex_);
  std::vector<std::string> all;
  for (const auto& [path, known] : damage_) all.insert(all.end(), known.begin(), known.end());
  return all;
}

// Shortens the list before it removes the file: a reader that misses the file finds that its seqs are gone, and says
// so.
void Catalog::retain(std::uint64_t released, std::uint64_t old, std::uint64_t max_bytes) {
  const std::scoped_lock one_at_a_time(removing_);
  while (!to_remove_.empty() && remove_segment(to_remove_.front())) to_remove_.erase(to_remove_.begin());
  for (;;) {
    std::filesystem::path path;
    {
      const std::scoped_lock lock(mutex_);
      if (segments_.size() < 2 || segments_.front().next > released + 1) return;
      std::uint64_t total = 0;
      for (const Segment& segment : segments_) total += segment.end;
      path = segments_.front().path;
      if (total <= max_bytes && segments_.front().next > old + 1) return;
      segments_.erase(segments_.begin());
      oldest_.store(segments_.front().name.first, std::memory_order_release);
      damage_.erase(path);
    }
    // Removes the oldest first, so that a kill leaves no hole. A file that cannot be removed is tried again at the next
    // call, before any other.
    if (!to_remove_.empty() || !remove_segment(path)) to_remove_.push_back(path);
  }
}

}  // namespace sessiond::journal
