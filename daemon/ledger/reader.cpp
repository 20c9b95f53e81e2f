#include "daemon/ledger/reader.hpp"

#include "daemon/ledger/apply.hpp"
#include "transcripts/entry.hpp"

namespace sessiond {

Result<Transcript*> Ledger::Reader::fresh() {
  if (!transcript) {
    auto opened = Transcript::open(path, sidecar);
    if (!opened) return std::unexpected(std::move(opened.error()));
    transcript = std::move(*opened);
  } else if (auto again = transcript->refresh(); !again) {
    return std::unexpected(std::move(again.error()));
  }
  return transcript.get();
}

Result<EntryIds> read_ids(Transcript& transcript) {
  EntryIds out;
  PageQuery query;
  query.limit = 10'000;
  for (;;) {
    auto page = transcript.page(query);
    if (!page) return std::unexpected(std::move(page.error()));
    for (const StoredLine& line : page->lines) {
      out.hashes.insert(id_hash(entry_id(line.line, line.seq)));
      ++out.lines;
    }
    if (!page->has_more || !page->next) return out;
    query.after = page->next;
  }
}

}  // namespace sessiond
