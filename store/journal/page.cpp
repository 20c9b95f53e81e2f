#include "store/journal/page.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

#include "store/files.hpp"
#include "store/journal/line.hpp"
#include "store/journal/reader.hpp"

namespace sessiond::journal {
namespace {

using Holes = std::vector<Epoch::Hole>;

// Goes through lines from the one that holds `from`, giving each to `take`, until it has about `max_bytes` of them. It
// never passes over an event that is missing, unless `lost` has it: it ends before that, and says so when that is where
// it begins. Damage that holds nothing of what is asked for is nothing to it.
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

  // Reads on in one segment; false when it is enough. not_found: there is no such file.
  Result<bool> read(const Catalog::Stretch& stretch) {
    const auto file = open_file(stretch.path, O_RDONLY | O_NONBLOCK);
    if (!file) return std::unexpected(file.error());
    struct stat status{};
    if (::fstat(file->get(), &status) != 0 || !S_ISREG(status.st_mode)) {
      damaged(stretch.path, fmt::format("{} is no file", stretch.path.native()));
      return true;
    }
    if (!lines(file->get(), stretch, stretch.offset)) lines(file->get(), stretch, 0);
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
  const std::string& damage() const { return damage_; }  // the last that it saw

 private:
  // False: at `offset`, which an index named, stands no line.
  bool lines(int fd, const Catalog::Stretch& stretch, std::uint64_t offset) {
    LineReader reader(fd, offset, stretch.end, stretch.path.native());
    std::uint64_t at = offset;
    while (!enough_) {
      const auto raw = reader.next();
      if (!raw) {  // the disk does not give it: nothing of this segment behind here can be had
        damaged(stretch.path, fmt::format("{}, from offset {} on", raw.error().detail, at));
        return true;
      }
      if (!*raw) break;
      const auto [begin, text, ended] = **raw;
      if (begin == offset && offset != 0 && !(ended && seq_of_line(text))) return false;
      line(stretch, begin, text, ended);
      at = begin + text.size() + (ended ? 1 : 0);
    }
    if (!enough_ && at != stretch.end) damaged(stretch, at);
    return true;
  }

  void line(const Catalog::Stretch& stretch, std::uint64_t offset, std::string_view text, bool ended) {
    const auto parsed = ended ? parse_line(text, parts_) : std::nullopt;
    if (parsed && parsed->first >= least_) {
      least_ = parsed->next;
      return give(*parsed, text.size());
    }
    damaged(stretch, offset);
    const std::size_t other = parsed ? std::string_view::npos : line_start_within(text);
    if (other != std::string_view::npos) line(stretch, offset + other, text.substr(other), ended);
  }

  void damaged(const Catalog::Stretch& stretch, std::uint64_t offset) {
    damaged(stretch.path, fmt::format("{} is damaged at offset {}", stretch.path.native(), offset));
  }

  void give(const Line& line, std::size_t length) {
    const bool has_events = line.next > line.first;
    if (has_events ? line.next <= from_ : line.first < from_) return;
    if (line.first > behind_known(next_)) return missing(line.first);
    take_(line);
    next_ = behind_known(std::max(next_, line.next));
    bytes_ += length;
    // Never full of batches without events alone: such a page would lead to itself again. Nor at the head: those behind
    // the last event belong to what must be read before `next` is beyond it.
    enough_ = bytes_ >= max_bytes_ && next_ > from_ && next_ <= head_;
  }

  // Events [next_, until) are not there.
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
  for (auto stretch = catalog.locate(from, until); stretch; stretch = catalog.following(stretch->serial, until)) {
    const auto more = walk.read(*stretch);
    if (!more && more.error().code == Code::not_found) {
      if (from < catalog.oldest()) return gone();  // retention was faster
      // One that is not held any more was overridden just now: then it held no event.
      if (catalog.holds(stretch->serial))
        walk.damaged(stretch->path, fmt::format("{} is missing", stretch->path.native()));
      continue;
    }
    if (!more) return std::unexpected(more.error());
    if (!*more) break;
  }
  walk.end();
  // Not damage: retention took the segment before it was found.
  if (walk.is_lost() && from < catalog.oldest()) return gone();
  return {};
}

}  // namespace

Result<JournalPage> read_page(const Catalog& catalog, const Holes& lost, std::uint64_t from, std::size_t max_bytes) {
  JournalPage page;
  Walk walk(catalog, lost, from, max_bytes, Parts::all, [&page, from](const Line& line) {
    StoredBatch batch = to_batch(line, from);
    // The first line of an overriding segment says nothing to a reader.
    if (!batch.events.empty() || !batch.answers.empty() || !batch.line_positions.empty())
      page.batches.push_back(std::move(batch));
  });
  if (auto read = run(walk, catalog, from); !read) return std::unexpected(read.error());
  if (walk.is_lost())
    return fail(Code::degraded, fmt::format("seqs {} to {} cannot be read{}{}", from, walk.next() - 1,
                                            walk.damage().empty() ? "" : ": ", walk.damage()));
  page.next = walk.next();
  return page;
}

Result<EventsRead> read_events(const Catalog& catalog, std::uint64_t from, std::size_t max_bytes,
                               const std::function<void(std::uint64_t, std::string_view)>& take) {
  static const Holes none;  // who follows events is told of every one that is missing
  Walk walk(catalog, none, from, max_bytes, Parts::events, [&take, from](const Line& line) {
    for (std::size_t index = 0; index < line.events.size(); ++index)
      if (line.first + index >= from) take(line.first + index, line.events[index]);
  });
  if (auto read = run(walk, catalog, from); !read) return std::unexpected(read.error());
  return EventsRead{.next = walk.next(), .lost = walk.is_lost()};
}

}  // namespace sessiond::journal
