// How large an entry may become (store/limits.hpp). Fields that the daemon keeps itself are not counted: a session
// whose entry is full still takes messages and resets.
#pragma once

#include <string_view>

#include "store/json/raw_json.hpp"
#include "store/problem.hpp"

namespace sessiond {

// validation_failed when the entry `after` a write has more than it may, and more than it had `before` ("{}": it is
// new). A larger one that another program wrote can thus be made smaller. Pointers are below `pointer_prefix`, as of
// check_entry_edit.
Result<void> check_entry_size(std::string_view before, std::string_view after, std::string_view pointer_prefix);

// The same of an edit before anything is made of it: it names no more fields than an entry may have, or than it has.
Result<void> check_edit_size(std::size_t named, std::string_view before, std::string_view pointer_prefix);

// What an import says of earlier sessions: as much as the daemon itself would remember.
Result<void> check_previous_sessions(const json::Edit& edit, std::string_view pointer_prefix);

}  // namespace sessiond
