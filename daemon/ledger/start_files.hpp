// Prepares the state directory before the journal is opened. Blocks; nothing else runs yet.
#pragma once

#include <string>
#include <vector>

#include "daemon/ledger/checkpoint_file.hpp"
#include "daemon/ledger/paths.hpp"

namespace sessiond::ledger {

// The bounds of the journal's seqs that follow from the other files.
struct JournalBounds {
  std::uint64_t first_seq = 1;   // where a new journal begins
  std::uint64_t least_head = 0;  // an existing journal must reach this far
};
Result<JournalBounds> journal_bounds(const Paths& paths, const Checkpoint& checkpoint, bool repair);
// Moves obstacles aside (obstacles.hpp). Returns a sentence for each.
std::vector<std::string> clear_the_way(const Paths& paths);
// Returns the random bytes that sign list cursors, stream tickets, login cookies and the lineage in events. They are
// kept in a file, so that what was signed stays valid after a restart.
Result<std::string> journal_secret(const std::filesystem::path& path);
// Removes temporary files that a killed daemon left.
void remove_left_temps(const Paths& paths);

}  // namespace sessiond::ledger
