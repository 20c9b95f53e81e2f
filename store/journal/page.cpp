#include "store/journal/page.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

#include "store/files.hpp"
#include "store/journal/line.hpp"
#include "store/line_reader.hpp"
#include "store/try.hpp"

namespace sessiond::journal {
namespace {

using Holes = std::vector<Epoch::Hole>;

// Reads lines from the one that has `from`, and gives each to `take`, until it has about `max_bytes`. It ends before a
// missing event that is not in `lost`, and sets is_lost() when that is the first one asked for. Damage outside the
// events that are asked for does not matter.
template <class Take>
class Walk {
 public:
  Walk(const Catalog& catalog, const Holes& lost, std::uint64_t from, std::size_t max_bytes, Parts parts, Take take)
      : catalog_(catalog),
        lost_(lost),
        parts_(parts),
        from_(from),
        max_bytes_(max_bytes),
        next_(from),
        take_(std::move(take)) {}

  void begin(std::uint64_t head) {
    head_ = head;
    next_ = behind_known(from_);
  }

  // Continues in one segment; false when it has enough. not_found: there is no such file.
  Result<bool> read(const Catalog::SegmentPart& part) {
    TRY(const auto file, store::open_file(part.path, O_RDONLY | O_NONBLOCK));
    struct stat status{};
    if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
      damaged(part.path, fmt::format("{} is not a file", part.path.native()));
      return true;
    }
    if (!lines(file.get(), part, part.offset)) lines(file.get(), part, 0);
    return !enough_;
  }

  // All segments were read.
  void end() {
    if (!enough_ && next_ <= head_) missing(head_ + 1);
  }

  std::uint64_t next() const { return next_; }
  bool is_lost() const { return is_lost_; }
  void damaged(const std::filesystem::path& path, std::string what) {
    damage_ = what;
    catalog_.note_damage(path, std::move(what));
  }
  const std::string& damage() const { return damage_; }  // the last that it found

 private:
  // False: no line begins at `offset`, so the index is wrong.
  bool lines(int fd, const Catalog::SegmentPart& part, std::uint64_t offset) {
    store::SequentialLines reader(fd, offset, part.end, part.path.native());
    std::uint64_t at = offset;
    while (!enough_) {
      const auto raw = reader.next();
      if (!raw) {  // the disk cannot read it: the rest of this segment is lost
        damaged(part.path, fmt::format("{}, from offset {} on", raw.error().detail, at));
        return true;
      }
      if (!*raw) break;
      const auto [begin, text, ended] = **raw;
      if (begin == offset && offset != 0 && !(ended && seq_of_line(text))) return false;
      line(part, begin, text, ended);
      at = begin + text.size() + (ended ? 1 : 0);
    }
    if (!enough_ && at != part.end) damaged(part, at);
    return true;
  }

  void line(const Catalog::SegmentPart& part, std::uint64_t offset, std::string_view text, bool ended) {
    const auto parsed = ended ? parse_line(text, parts_) : std::nullopt;
    if (parsed && parsed->first >= least_) {
      least_ = parsed->next;
      return give(*parsed, text.size());
    }
    damaged(part, offset);
    const std::size_t other = parsed ? std::string_view::npos : line_start_within(text);
    if (other != std::string_view::npos) line(part, offset + other, text.substr(other), ended);
  }

  void damaged(const Catalog::SegmentPart& part, std::uint64_t offset) {
    damaged(part.path, damaged_at(part.path, offset));
  }

  void give(const Line& line, std::size_t length) {
    const bool has_events = line.next > line.first;
    if (has_events ? line.next <= from_ : line.first < from_) return;
    if (line.first > behind_known(next_)) return missing(line.first);
    take_(line);
    next_ = behind_known(std::max(next_, line.next));
    bytes_ += length;
    // A page must not end with batches without events alone: the next page would begin at the same seq. At the head it
    // must not end either: batches without events behind the last event belong to it.
    enough_ = bytes_ >= max_bytes_ && next_ > from_ && next_ <= head_;
  }

  // Events [next_, until) are missing.
  void missing(std::uint64_t until) {
    enough_ = true;
    if (next_ > from_) return;
    is_lost_ = true;
    next_ = until;
  }

  std::uint64_t behind_known(std::uint64_t seq) const {
    for (const Epoch::Hole& hole : lost_)
      if (hole.from <= seq && seq < hole.to) seq = hole.to;
    return seq;
  }

  const Catalog& catalog_;
  const Holes& lost_;
  Parts parts_;
  std::uint64_t from_;
  std::size_t max_bytes_;
  std::uint64_t head_ = 0;
  std::uint64_t next_;
  Take take_;
  std::size_t bytes_ = 0;
  std::uint64_t least_ = 0;  // seqs rise
  bool enough_ = false;
  bool is_lost_ = false;
  std::string damage_{};
};

template <class Take>
Result<void> run(Walk<Take>& walk, const Catalog& catalog, std::uint64_t from) {
  const auto gone = [&] {
    return fail(Code::bad_cursor,
                fmt::format("seq {} is older than what the journal keeps ({})", from, catalog.oldest()));
  };
  if (from < catalog.oldest()) return gone();
  const Catalog::End until = catalog.end();
  walk.begin(until.head);
  for (auto part = catalog.locate(from, until); part; part = catalog.following(part->serial, until)) {
    const auto more = walk.read(*part);
    if (!more && more.error().code == Code::not_found) {
      if (from < catalog.oldest()) return gone();  // retention was faster
      // A segment that is no longer listed was overridden just now: then it had no event.
      if (catalog.holds(part->serial)) walk.damaged(part->path, fmt::format("{} is missing", part->path.native()));
      continue;
    }
    if (!more) return std::unexpected(more.error());
    if (!*more) break;
  }
  walk.end();
  // Not damage: retention removed the segment before it was found.
  if (walk.is_lost() && from < catalog.oldest()) return gone();
  return {};
}

}  // namespace

Result<JournalPage> read_page(const Catalog& catalog, const Holes& lost, std::uint64_t from, std::size_t max_bytes) {
  JournalPage page;
  Walk walk(catalog, lost, from, max_bytes, Parts::all, [&page, from](const Line& line) {
    StoredBatch batch = to_batch(line, from);
    // The first line of an overriding segment is empty.
    if (!batch.events.empty() || !batch.answers.empty() || !batch.line_positions.empty())
      page.batches.push_back(std::move(batch));
  });
  TRY(run(walk, catalog, from));
  if (walk.is_lost())
    return fail(Code::degraded, fmt::format("seqs {} to {} cannot be read{}{}", from, walk.next() - 1,
                                            walk.damage().empty() ? "" : ": ", walk.damage()));
  page.next = walk.next();
  return page;
}

Result<EventsRead> read_events(const Catalog& catalog, std::uint64_t from, std::size_t max_bytes,
                               const std::function<void(std::uint64_t, std::string_view)>& take) {
  static const Holes none;  // a stream must be told of every missing event
  Walk walk(catalog, none, from, max_bytes, Parts::events, [&take, from](const Line& line) {
    for (std::size_t index = 0; index < line.events.size(); ++index)
      if (line.first + index >= from) take(line.first + index, line.events[index]);
  });
  TRY(run(walk, catalog, from));
  return EventsRead{.next = walk.next(), .lost = walk.is_lost()};
}

}  // namespace sessiond::journal
