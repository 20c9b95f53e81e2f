#include "store/journal_page.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>

#include "store/files.hpp"
#include "store/journal_line.hpp"
#include "store/journal_reader.hpp"

namespace sessiond::journal {
namespace {

class PageReader {
 public:
  PageReader(std::uint64_t from, std::size_t max_bytes, std::uint64_t head)
      : from_(from), max_bytes_(max_bytes), head_(head) {
    page_.next = from;
  }

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
      const auto line = (*raw)->ended ? parse_line((*raw)->text) : std::nullopt;
      if (!line || line->first < least_) return damaged(stretch, (*raw)->offset);
      least_ = line->next;
      at = (*raw)->offset + (*raw)->text.size() + 1;
      take(*line, (*raw)->text.size());
      if (full_) return false;
    }
    if (at != stretch.end) return damaged(stretch, at);
    return true;
  }

  JournalPage take_page() { return std::move(page_); }

 private:
  static std::unexpected<Problem> damaged(const Catalog::Stretch& stretch, std::uint64_t offset) {
    return fail(Code::degraded, fmt::format("{} is damaged at offset {}", stretch.path.native(), offset));
  }

  void take(const Line& line, std::size_t length) {
    const bool has_events = line.next > line.first;
    if (has_events ? line.next <= from_ : line.first < from_) return;
    StoredBatch batch = to_batch(line, from_);
    // The first line of an overriding segment says nothing to a reader.
    if (!batch.events.empty() || !batch.answers.empty() || !batch.places.empty())
      page_.batches.push_back(std::move(batch));
    page_.next = std::max(page_.next, line.next);
    bytes_ += length;
    // Never full of batches without events alone: such a page would lead to itself again. Nor at the head: those behind
    // the last event belong to what must be read before `next` is beyond it.
    full_ = bytes_ >= max_bytes_ && page_.next > from_ && page_.next <= head_;
  }

  std::uint64_t from_;
  std::size_t max_bytes_;
  std::uint64_t head_;
  std::size_t bytes_ = 0;
  std::uint64_t least_ = 0;  // seqs rise
  bool full_ = false;
  JournalPage page_{};
};

}  // namespace

Result<JournalPage> read_page(const Catalog& catalog, std::uint64_t from, std::size_t max_bytes) {
  const auto gone = [&] {
    return fail(Code::bad_cursor,
                fmt::format("seq {} is older than what the journal keeps ({})", from, catalog.oldest()));
  };
  if (from < catalog.oldest()) return gone();
  const Catalog::End until = catalog.end();
  PageReader reader(from, max_bytes, until.head);
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
  return reader.take_page();
}

}  // namespace sessiond::journal
