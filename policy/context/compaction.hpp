// Plans a compaction: which entries a summary replaces. The daemon calls no model, so a runner asks for the plan, makes
// the summary and commits it with the plan's first kept entry. What comes meanwhile is kept.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "policy/context/view.hpp"

namespace sessiond::context {

struct CompactionPlan {
  std::string first_kept{};                       // entry id: where the turns that are kept begin, in the order of runs
  std::optional<std::string> previous_summary{};  // of the last checkpoint
  std::size_t count = 0;                          // messages to summarise; system messages are not among them
};

// Nothing if there is nothing to compact: too few messages, or no turn before those that are kept. What waits for a run
// and what the active one was handed is kept.
std::optional<CompactionPlan> plan_compaction(const Conversation& conversation, const CompactionSettings& settings,
                                              const OrderAsked& runs = {});

}  // namespace sessiond::context
