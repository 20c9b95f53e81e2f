#include "daemon/stream/stored.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace sessiond {
namespace {

// What a slow subscriber holds in memory while it is being written to; the journal's index is about as coarse.
constexpr std::size_t page_bytes = 256 << 10;

// Calls `take(event)` for every event of one page up to `last`; where to read on.
template <class Take>
Result<std::uint64_t> for_each(const Journal& journal, std::uint64_t from, std::uint64_t last, Take take) {
  auto page = journal.read(from, page_bytes);
  if (!page) return std::unexpected(std::move(page.error()));
  if (page->next <= from)
    return fail(Code::degraded, fmt::format("the journal has nothing at seq {} and says that it has", from));
  for (const StoredBatch& batch : page->batches) {
    for (const Bytes& bytes : batch.events) {
      auto event = parse_event(*bytes);
      if (!event) return std::unexpected(std::move(event.error()));
      if (event->envelope.seq > last) return last + 1;
      take(std::move(*event));
    }
  }
  return std::min(page->next, last + 1);
}

}  // namespace

Result<StoredEvents> read_stored(const Journal& journal, const StreamView& view, std::uint64_t from,
                                 std::uint64_t last) {
  StoredEvents out;
  auto next = for_each(journal, from, last, [&](Event event) {
    if (view.shows(event.envelope)) out.events.push_back(std::move(event));
  });
  if (!next) return std::unexpected(std::move(next.error()));
  out.next = *next;
  return out;
}

Result<StoredSeqs> find_stored(const Journal& journal, const StreamView& view, std::uint64_t from, std::uint64_t last) {
  StoredSeqs out;
  while (from <= last) {
    auto next = for_each(journal, from, last, [&](const Event& event) {
      out.bytes += event.json->size();
      if (view.shows(event.envelope)) out.seqs.push_back(event.envelope.seq);
    });
    if (!next) return std::unexpected(std::move(next.error()));
    from = *next;
  }
  return out;
}

}  // namespace sessiond
