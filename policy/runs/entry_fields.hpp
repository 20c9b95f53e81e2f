// The fields of an entry that say which agent a session has, and what it may do: agentRef, agentSnapshot,
// fallbackChain, tools, guardrails, turnCap. A session keeps the agent that it got first, and may narrow the agent's
// tools, never widen them. What foreign programs write is not checked here.
//
// To be used with check_entry_edit (policy/entry_rules.hpp), which knows the fields' types.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "store/json/raw_json.hpp"
#include "store/problem.hpp"

namespace sessiond::runs {

// Returns the faults of what an edit sets: of turnCap, and within guardrails, tools and agentSnapshot.tools; not
// more than limits::faults of a field. Pointers begin with `pointer_prefix`.
std::vector<Fault> field_faults(const json::Edit& edit, std::string_view pointer_prefix);

// Checks what an edit, whose values are whole and not patches, does to the entry `before` ({} for a new session).
//   agent_bound: it changes or removes an agentRef, agentSnapshot or fallbackChain that is set.
//   validation_failed: it leaves tools with an element that is not in agentSnapshot.tools; or, while a run is active,
//   one that was not in tools before.
// An agentSnapshot without tools has none.
Result<void> check_binding(std::string_view before, const json::Edit& edit, std::string_view pointer_prefix);

// The fields that only a token with the permission `policy` changes.
inline constexpr std::array<std::string_view, 2> policy_fields{"guardrails", "turnCap"};

// forbidden if an edit changes or removes the guardrails or the turnCap of the entry `before`: a token without the
// permission `policy` may not.
Result<void> check_keeps_policy(std::string_view before, const json::Edit& edit);

// Gives a spawned session, whose entry is `edit`, the guardrails and the permissionMode of its parent, as far as it
// names none. forbidden if it names others and `sets_policy` is false.
Result<void> inherit_policy(std::string_view parent, json::Edit& edit, bool sets_policy);

}  // namespace sessiond::runs
