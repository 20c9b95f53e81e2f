// Limits the size of an entry (store/limits.hpp). Fields that the daemon itself writes are not counted, so that a
// session whose entry is full still accepts messages and resets.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "store/json/raw_json.hpp"
#include "store/problem.hpp"

namespace sessiond::policy {

// Fails with validation_failed when the entry `after` a write exceeds a limit and is larger than `before` ("{}" for a
// new entry). So an entry that a foreign program has made too large can be made smaller in steps. Pointers begin with
// `pointer_prefix`, as in check_entry_edit.
Result<void> check_entry_size(std::string_view before, std::string_view after, std::string_view pointer_prefix);

// The size of what a client names of an entry: a merge patch, or a whole entry.
struct EntrySize {
  std::size_t fields = 0;
  std::size_t members = 0;  // at all depths
  std::size_t bytes = 0;
  std::string fullest{};  // the field with the most members, for the pointer of a fault
  std::string longest{};  // the field with the most bytes
};
EntrySize size_of_named(std::string_view object);
// Refuses what is surely too large for the entry `before`, before any work is done on it: check_entry_size() would
// refuse the result. Costs nothing if `named` is within the limits.
Result<void> check_named_size(const EntrySize& named, std::string_view before, std::string_view pointer_prefix);

// Checks an edit before it is applied: it may name as many fields as an entry may have, or as this entry has.
Result<void> check_edit_size(std::size_t named, std::string_view before, std::string_view pointer_prefix);

// Checks previousSessions of an import: it may have as many as the daemon itself would keep.
Result<void> check_previous_sessions(const json::Edit& edit, std::string_view pointer_prefix);

}  // namespace sessiond::policy
