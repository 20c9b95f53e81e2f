// Gives sessions the names that clients choose, and the slug that goes with a name (policy/names.hpp). The entry's
// member `slug` follows `name`: a client cannot set it.
//
// The slugs of an agent differ: budget, budget-2, budget-3. A number would tell a token which names there are outside
// its scope. So a token that does not see the whole agent gets 8 random hex digits instead of a number, and always:
// budget-1f0c93ab, whether or not "budget" is free.
#pragma once

#include <string>
#include <string_view>

#include "daemon/decide/decision.hpp"

namespace sessiond::decide {

// Checks the name that a client sets, and stores its slug instead where names.sanitize says so. `before`: the entry as
// it is; a name that it has already is not checked. validation_failed at <pointer_prefix>/name, reserved_name.
Result<void> check_name(const Rules& rules, json::Edit& edit, const std::string& pointer_prefix,
                        std::string_view before = "{}");
// Adds the slug to an edit that sets or removes the name of the session `key`; `before` is its entry.
void put_slug(const DecisionBuilder& builder, std::string_view key, std::string_view before, json::Edit& edit);
// Returns a slug for the name that no other session than `key` has.
std::string free_slug_of(const DecisionBuilder& builder, std::string_view key, std::string_view name);

}  // namespace sessiond::decide
