#include "store/journal_page.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>

#include "store/files.hpp"
#include "store/journal_line.hpp"
#include "store/journal_reader.hpp"

namespace sessiond::journal {
namespace {

// Goes through lines from the one that holds `from`, giving each to `take`, until it has about `max_bytes` of them.
template <class Take>
class Walk {
 public:
  Walk(std::uint64_t from, std::size_t max_bytes, std::uint64_t head, Parts parts, Take take)
      : parts_(parts), from_(from), max_bytes_(max_bytes), head_(head), next_(from), take_(std::move(take)) {}

  // Reads on in one segment; false when the page is full.
  Result<bool> read(const Catalog::Stretch& stretch) {
    const auto file = open_file(stretch.path, O_RDONLY);
    if (!file) return std::unexpected(file.error());
    LineReader reader(file->get(), stretch.offset, stretch.end, stretch.path.native());
    std::uint64_t at = stretch.offset;
    for (;;) {
      const auto raw = reader.next();
      if (!raw) return std::unexpected(raw.error());
      if (!*raw) break;
      const auto line = (*raw)->ended ? parse_line((*raw)->text, parts_) : std::nullopt;
      if (!line || line->first < least_) return damaged(stretch, (*raw)->offset);
      least_ = line->next;
      at = (*raw)->offset + (*raw)->text.size() + 1;
      take(*line, (*raw)->text.size());
      if (full_) return false;
    }
    if (at != stretch.end) return damaged(stretch, at);
    return true;
  }

  std::uint64_t next() const { return next_; }

 private:
  static std::unexpected<Problem> damaged(const Catalog::Stretch& stretch, std::uint64_t offset) {
    return fail(Code::degraded, fmt::format("{} is damaged at offset {}", stretch.path.native(), offset));
  }

  void take(const Line& line, std::size_t length) {
    const bool has_events = line.next > line.first;
    if (has_events ? line.next <= from_ : line.first < from_) return;
    take_(line);
    next_ = std::max(next_, line.next);
    bytes_ += length;
    // Never full of batches without events alone: such a page would lead to itself again. Nor at the head: those behind
    // the last event belong to what must be read before `next` is beyond it.
    full_ = bytes_ >= max_bytes_ && next_ > from_ && next_ <= head_;
  }

  Parts parts_;
  std::uint64_t from_;
  std::size_t max_bytes_;
  std::uint64_t head_;
  std::uint64_t next_;
  Take take_;
  std::size_t bytes_ = 0;
  std::uint64_t least_ = 0;  // seqs rise
  bool full_ = false;
};

// Where to go on.
template <class Take>
Result<std::uint64_t> walk(const Catalog& catalog, std::uint64_t from, std::size_t max_bytes, Parts parts, Take take) {
  const auto gone = [&] {
    return fail(Code::bad_cursor,
                fmt::format("seq {} is older than what the journal keeps ({})", from, catalog.oldest()));
  };
  if (from < catalog.oldest()) return gone();
  const Catalog::End until = catalog.end();
  Walk reader(from, max_bytes, until.head, parts, std::move(take));
  for (auto stretch = catalog.locate(from, until); stretch; stretch = catalog.following(stretch->serial, until)) {
    const auto more = reader.read(*stretch);
    if (!more && more.error().code == Code::not_found) {
      if (from < catalog.oldest()) return gone();  // retention was faster
      // Overridden just now: then it held no event.
      if (catalog.holds(stretch->serial)) return std::unexpected(more.error());
      continue;
    }
    if (!more) return std::unexpected(more.error());
    if (!*more) break;
  }
  return reader.next();
}

}  // namespace

Result<JournalPage> read_page(const Catalog& catalog, std::uint64_t from, std::size_t max_bytes) {
  JournalPage page;
  const auto next = walk(catalog, from, max_bytes, Parts::all, [&page, from](const Line& line) {
    StoredBatch batch = to_batch(line, from);
    // The first line of an overriding segment says nothing to a reader.
    if (!batch.events.empty() || !batch.answers.empty() || !batch.places.empty())
      page.batches.push_back(std::move(batch));
  });
  if (!next) return std::unexpected(next.error());
  page.next = *next;
  return page;
}

Result<std::uint64_t> read_events(const Catalog& catalog, std::uint64_t from, std::size_t max_bytes,
                                  const std::function<void(std::uint64_t, std::string_view)>& take) {
  return walk(catalog, from, max_bytes, Parts::events, [&take, from](const Line& line) {
    for (std::size_t index = 0; index < line.events.size(); ++index)
      if (line.first + index >= from) take(line.first + index, line.events[index]);
  });
}

}  // namespace sessiond::journal
