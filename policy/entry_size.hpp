// Limits the size of an entry (store/limits.hpp). Fields that the daemon itself writes are not counted, so that a
// session whose entry is full still accepts messages and resets.
#pragma once

#include <string_view>

#include "store/json/raw_json.hpp"
#include "store/problem.hpp"

namespace sessiond::policy {

// Fails with validation_failed when the entry `after` a write exceeds a limit and is larger than `before` ("{}" for a
// new entry). So an entry that a foreign program has made too large can be made smaller in steps. Pointers begin with
// `pointer_prefix`, as in check_entry_edit.
Result<void> check_entry_size(std::string_view before, std::string_view after, std::string_view pointer_prefix);

// Checks an edit before it is applied: it may name as many fields as an entry may have, or as this entry has.
Result<void> check_edit_size(std::size_t named, std::string_view before, std::string_view pointer_prefix);

// Checks previousSessions of an import: it may have as many as the daemon itself would keep.
Result<void> check_previous_sessions(const json::Edit& edit, std::string_view pointer_prefix);

}  // namespace sessiond::policy
