// Reading the journal back: a page of batches from a seq on, each line's CRC verified. Any thread; reads the disk.
#pragma once

#include "store/journal.hpp"
#include "store/journal_catalog.hpp"

namespace sessiond::journal {

// See Journal::read. A damaged line is a `degraded` problem naming segment and offset.
Result<JournalPage> read_page(const Catalog& catalog, std::uint64_t from, std::size_t max_bytes);

}  // namespace sessiond::journal
