// Prepares the state directory before the journal is opened. Blocks; nothing else runs yet.
#pragma once

#include <string>
#include <vector>

#include "daemon/ledger/checkpoint_file.hpp"
#include "daemon/ledger/paths.hpp"

namespace sessiond::ledger {

// The bounds that the files beside the journal set to it.
struct JournalBounds {
  std::uint64_t first_seq = 1;   // of a new journal
  std::uint64_t least_head = 0;  // of one that is there
};
Result<JournalBounds> journal_bounds(const Paths& paths, const Checkpoint& checkpoint, bool repair);
// Moves aside what stands where one of our files should be. Returns a sentence for each.
std::vector<std::string> clear_the_way(const Paths& paths);
void remove_left_temps(const Paths& paths);

}  // namespace sessiond::ledger
