#include "daemon/ledger/dirty_entry.hpp"

#include <algorithm>

namespace sessiond::ledger {

DirtyEntry dirty_entry(decide::AgentState& state, const std::string& key) {
  const decide::Session* session = state.mutable_session(key);
  if (session == nullptr) return {.order = 0, .entry = {.key = key, .entry = nullptr}};
  return {.order = session->order + 1, .entry = {.key = key, .entry = session->entry()}};
}

std::vector<sessions::NamedEntry> in_order(std::vector<DirtyEntry> dirty) {
  std::ranges::sort(dirty, {}, &DirtyEntry::order);
  std::vector<sessions::NamedEntry> entries;
  entries.reserve(dirty.size());
  for (DirtyEntry& one : dirty) entries.push_back(std::move(one.entry));
  return entries;
}

}  // namespace sessiond::ledger
