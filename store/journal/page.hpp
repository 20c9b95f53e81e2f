// Reading the journal back: a page of batches from a seq on, each line's CRC verified. Any thread; reads the disk.
#pragma once

#include <functional>
#include <string_view>

#include "store/journal/catalog.hpp"
#include "store/journal/journal.hpp"
#include "store/journal/recovery.hpp"

namespace sessiond::journal {

// See Journal::read. `lost`: seqs whose loss an earlier repair has accepted.
Result<JournalPage> read_page(const Catalog& catalog, const std::vector<Epoch::Hole>& lost, std::uint64_t from,
                              std::size_t max_bytes);
// See Journal::each_event.
Result<EventsRead> read_events(const Catalog& catalog, std::uint64_t from, std::size_t max_bytes,
                               const std::function<void(std::uint64_t, std::string_view)>& take);

}  // namespace sessiond::journal
