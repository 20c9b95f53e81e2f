// Entries that sessions.json does not hold in their newest version, in the order in which a checkpoint writes them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/decide/agent_state.hpp"

namespace sessiond::ledger {

struct DirtyEntry {
  std::uint64_t order = 0;  // deletions (0), then entries, the oldest first
  sessions::NamedEntry entry;
};
DirtyEntry dirty_entry(decide::AgentState& state, const std::string& key);
std::vector<sessions::NamedEntry> in_order(std::vector<DirtyEntry> dirty);

}  // namespace sessiond::ledger
