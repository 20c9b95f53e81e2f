#include "policy/context/compaction.hpp"

#include <algorithm>

#include "policy/context/tool_pairs.hpp"

namespace sessiond::context {

std::optional<CompactionPlan> plan_compaction(const Conversation& conversation, const CompactionSettings& settings) {
  Rows rows;
  add_rows(rows, conversation.before, false);
  add_rows(rows, conversation.after, true);
  mark_answers(rows);
  const auto messages = std::ranges::count_if(rows.all, [](const Row& row) { return !row.entry.synthetic; });
  std::size_t first = rows.all.size();
  std::int64_t turns = 0;
  while (first > 0 && turns < settings.keep_turns)
    if (begins_turn(rows.all, --first)) ++turns;
  if (messages < settings.min_messages || first == 0 || turns < settings.keep_turns) return {};

  CompactionPlan plan{.first_kept = rows.all[first].id, .count = first};
  const std::vector<Line>& begin = conversation.before.empty() ? conversation.after : conversation.before;
  if (conversation.checkpoint) plan.previous_summary = summary_of(*conversation.checkpoint);
  if (begin.front().seq > 0) plan.after_seq = begin.front().seq - 1;
  for (const std::vector<Line>* lines : {&conversation.before, &conversation.after}) {
    for (const Line& line : *lines) {
      if (line.id == plan.first_kept) return plan;
      plan.through_seq = line.seq;
    }
  }
  return plan;
}

}  // namespace sessiond::context
