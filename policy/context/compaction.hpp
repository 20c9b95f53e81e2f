// Plans a compaction: which entries a summary replaces. The daemon calls no model, so a runner asks for the plan, makes
// the summary and commits it with the plan's first kept entry. What comes meanwhile is kept.
//
// A plan begins to keep where a turn begins, or, if need be, at a message of the model within one: then the words that
// began this turn stay, directly behind the summary. Only if neither can be, it parts a result from its call, or
// divides words of people that no answer stands between. Words that the active run was handed stay, too. It takes at
// most nine tenths of the window into the summary; the next plan takes the rest. A single message that has more is
// told to the summary cut. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "policy/context/view.hpp"

namespace sessiond::context {

struct CompactionPlan {
  std::string first_kept{};                       // entry id: where what is kept begins, in the order of runs
  std::optional<std::string> previous_summary{};  // of the last checkpoint
  std::size_t count = 0;                          // messages to summarise; system messages are not among them
};

struct PlanAsked {
  OrderAsked runs{};
  std::int64_t window = 200'000;  // tokens
  bool is_full = false;           // the window is: fewer turns may be kept, and what is taken must make room
};

// Nothing if there is nothing to compact: too few messages, or no turn before those that are kept. Where the window is
// full: what can go is less than a tenth of the window, or longer than a window. Of a conversation that is cut, the end
// of what was read is kept.
std::optional<CompactionPlan> plan_compaction(const Conversation& conversation, const Settings& settings,
                                              const PlanAsked& asked = {});

// Returns the entries before the one with this seq that stay behind a summary of the others: the words that began its
// turn, if it is an answer, and words that the active run was handed or that wait for one.
std::vector<const Line*> words_before(const Conversation& conversation, std::uint64_t first_kept,
                                      const OrderAsked& runs);

// Returns the rows that a summary is made from: those before the entry that is kept first, without the words that began
// its turn. Words of the active run are among them, since it may end before the summary is there. Long results are cut,
// and messages that would not fit alone, so that they fit into the window of the model that does it. Nothing: there is
// no such entry.
std::optional<Rows> rows_to_summarise(const Conversation& conversation, const Settings& settings,
                                      const std::string& first_kept, std::int64_t window);

}  // namespace sessiond::context
