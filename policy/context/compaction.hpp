// Plans a compaction: which entries a summary replaces. The daemon calls no model, so a runner asks for the plan, makes
// the summary and commits it with the plan's first kept entry. What comes meanwhile is kept.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "policy/context/view.hpp"

namespace sessiond::context {

struct CompactionPlan {
  std::string first_kept{};                       // entry id: where the turns that are kept begin
  std::optional<std::string> previous_summary{};  // of the last checkpoint
  std::optional<std::uint64_t> after_seq{};       // the entries to summarise follow this one; nothing: from the first
  std::uint64_t through_seq = 0;                  // up to this one
  std::size_t count = 0;                          // messages among them; system messages are not
};

// Nothing if there is nothing to compact: too few messages, or no turn before those that are kept.
std::optional<CompactionPlan> plan_compaction(const Conversation& conversation, const CompactionSettings& settings);

}  // namespace sessiond::context
