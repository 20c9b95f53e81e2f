// Makes calls of tools and their results match, as providers demand: each call has one result, directly behind the
// message that made it.
//
// Which result belongs to which call, call_book.hpp says. It comes directly behind the message with its call, and what
// people said between them behind it. A call without one gets a result that says so; a result without a call, or one of
// a call that has its result, is left out. Ids that a provider would not take, or that an earlier call has, are
// replaced in calls and results alike.
#pragma once

#include "policy/context/call_book.hpp"
#include "policy/context/view.hpp"

namespace sessiond::context {

std::vector<Repaired> match_pairs(Rows& rows);

// Marks persons' messages that bring the result of a call: they begin no turn, they belong to that of the call.
void mark_answers(Rows& rows);

// The message that answers a call which was interrupted, spelled as the call is.
std::string interrupted_result(const KeptCall& call);
inline constexpr std::int64_t interrupted_tokens = tokens_of(36);  // that it takes

}  // namespace sessiond::context
