// Which files an event renames: a transcript becomes an archive when its session is reset or deleted, and an archive
// becomes a transcript again when it is restored. Pure functions of the event and its line positions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/journal/event.hpp"
#include "store/journal/journal.hpp"

namespace sessiond::ledger {

// Says whether an event (or an event as JSON) renames or removes files: archives transcripts, restores them from
// archives, or destroys archives.
bool renames_files(const journal::Event& event);
bool renames_files(std::string_view event);
bool restores_files(const journal::Event& event);
// Lists the renames of an event as (transcript, archive name). `positions` are those of the event's commit or batch;
// they name the archives that the event only counts.
std::vector<std::pair<std::string, std::string>> archived_files(const journal::Event& event,
                                                                std::span<const journal::LinePosition> positions);
// Says whether the event destroys the archives that it makes.
bool purges_files(const journal::Event& event);

}  // namespace sessiond::ledger
