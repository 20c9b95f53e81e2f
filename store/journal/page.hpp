// Reads the journal back, from a seq on. Verifies the CRC of each line. Any thread; blocks.
#pragma once

#include <functional>
#include <string_view>

#include "store/journal/catalog.hpp"
#include "store/journal/journal.hpp"
#include "store/journal/recovery.hpp"

namespace sessiond::journal {

// Journal::read. `lost`: seqs whose loss an earlier repair has accepted.
Result<JournalPage> read_page(const Catalog& catalog, const std::vector<Epoch::Hole>& lost, std::uint64_t from,
                              std::size_t max_bytes);
// Journal::each_event.
Result<EventsRead> read_events(const Catalog& catalog, std::uint64_t from, std::size_t max_bytes,
                               const std::function<void(std::uint64_t, std::string_view)>& take);

}  // namespace sessiond::journal
