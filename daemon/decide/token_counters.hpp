// Counts the tokens of replies in a session's entry.
//
// usageTotals has the sums, in either store mode; the API, exports and the dashboard show no others. totalTokens is the
// sum, too, in mode own. In mode shared it is what OpenClaw reads it as: the size of the present context, which is all
// that the model was shown for its last reply, with totalTokensFresh:true. Until the first reply behind a compaction or
// a reset the size is not known, and totalTokensFresh is false. No sum is ever read out of a totalTokens that has
// totalTokensFresh beside it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "daemon/decide/session.hpp"
#include "policy/usage.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::decide {

inline constexpr std::string_view totals_member = "usageTotals";
inline constexpr std::string_view fresh_member = "totalTokensFresh";

// Where a reply is counted.
struct TokenRule {
  bool shared = false;      // store.mode
  bool is_context = false;  // the reply is of the session's own transcript, not of a topic's
};

// The sums of an entry, which one from before usageTotals has in its other counters.
policy::UsageTotals totals_of(const Counters& counters);

// Adds a reply to the counters, and what changes to `edit`.
void count_usage(Counters& counters, const policy::TokenUsage& usage, TokenRule rule, CountedEdit& edit);

// The present context got another size: adds to `edit` that totalTokens does not tell it. Nothing in mode own.
void mark_stale(Counters& counters, bool shared, CountedEdit& edit);

// Makes the members of a whole entry, which may come from a store of the other mode, those of this mode. `last_prompt`:
// what the model was shown for its last reply, as far as the transcript tells.
void fit_tokens(json::Edit& entry, bool shared, std::optional<std::int64_t> last_prompt = {});
// As above, for a stored entry: adds to `edit` what changes.
void fit_tokens(std::string_view entry, bool shared, json::Edit& edit);

}  // namespace sessiond::decide
