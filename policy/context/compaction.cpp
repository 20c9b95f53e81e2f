#include "policy/context/compaction.hpp"

#include <algorithm>
#include <map>
#include <string_view>

#include "policy/context/tool_pairs.hpp"

namespace sessiond::context {
namespace {

// Returns the seq of the last entry with each id. Foreign programs write several entries with one id, and a checkpoint
// that names it means the last one.
std::map<std::string_view, std::uint64_t> last_by_id(const Conversation& conversation) {
  std::map<std::string_view, std::uint64_t> last;
  for (const std::vector<Line>* lines : {&conversation.system, &conversation.before, &conversation.after})
    for (const Line& line : *lines) {
      std::uint64_t& seq = last[line.id];
      seq = std::max(seq, line.seq);
    }
  return last;
}

}  // namespace

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
  const auto last = last_by_id(conversation);
  while (first > 0 && (!begins_turn(rows.all, first) || last.at(rows.all[first].id) != rows.all[first].seq)) --first;
  if (messages < settings.min_messages || first == 0 || turns < settings.keep_turns) return {};

  CompactionPlan plan{.first_kept = rows.all[first].id, .count = first};
  const std::vector<Line>& begin = conversation.before.empty() ? conversation.after : conversation.before;
  if (conversation.checkpoint) plan.previous_summary = summary_of(*conversation.checkpoint);
  if (begin.front().seq > 0) plan.after_seq = begin.front().seq - 1;
  for (const std::vector<Line>* lines : {&conversation.before, &conversation.after}) {
    for (const Line& line : *lines) {
      if (line.seq >= rows.all[first].seq) return plan;
      plan.through_seq = line.seq;
    }
  }
  return plan;
}

}  // namespace sessiond::context
