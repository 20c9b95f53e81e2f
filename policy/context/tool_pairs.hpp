// Makes calls of tools and their results match, as providers demand: each call has one result, directly behind the
// message that made it.
//
// The first result of a call that comes before the next person's message is the call's. A call without one gets a
// result that says so; a result without a call is left out.
#pragma once

#include "policy/context/meter.hpp"
#include "policy/context/view.hpp"

namespace sessiond::context {

std::vector<Repaired> match_pairs(Rows& rows);

// Marks persons' messages that bring the result of a call: they begin no turn, they belong to that of the call.
void mark_answers(Rows& rows);

// The message that answers a call which was interrupted, spelled as the call is.
std::string interrupted_result(const OpenCall& call);

}  // namespace sessiond::context
