// Makes calls of tools and their results match, as providers demand: each call has one result, directly behind the
// message that made it.
//
// call_book.hpp finds the call of each result. The result is shown directly behind the message with its call; what
// people said between the two follows. A call without a result gets one that says so. A result without a call is left
// out, and so is a second result of a call. An id that a provider does not take, or that an earlier call has, is
// replaced in the call and in its result.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "policy/context/call_book.hpp"
#include "policy/context/view.hpp"

namespace sessiond::context {

std::vector<Repaired> match_pairs(Rows& rows);

// The ids by which calls were shown until now. Providers take each id once and allow few characters in it.
class ShownIds {
 public:
  // Returns the id by which a call with this one is shown.
  std::string add(const std::string& id);

 private:
  std::set<std::string, std::less<>> shown_{};
  std::map<std::string, std::uint64_t, std::less<>> last_{};  // number behind a stem
};
// The same for a part of a conversation; `ids`: of the parts before it.
std::vector<Repaired> match_pairs(Rows& rows, ShownIds& ids);

// Marks persons' messages that bring the result of a call: they begin no turn, they belong to that of the call.
void mark_answers(Rows& rows);

// The message that answers a call which was interrupted, spelled as the call is.
std::string interrupted_result(const KeptCall& call);
inline constexpr std::int64_t interrupted_tokens = tokens_of(36);  // that it takes

}  // namespace sessiond::context
