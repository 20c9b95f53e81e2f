#include "policy/context/compaction.hpp"

#include <algorithm>
#include <map>
#include <set>
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

// Returns for each row whether a result in it, or behind it, belongs to a call before it: a summary that ends there
// would part them, and the result would be left out.
std::vector<bool> parted(const Rows& rows) {
  CallBook book;
  std::vector<std::size_t> calls;                                         // the rows with calls
  std::vector<std::size_t> first_call(rows.all.size(), rows.all.size());  // of the results of a row
  for (std::size_t at = 0; at < rows.all.size(); ++at) {
    const Entry& entry = rows.all[at].entry;
    for (const Owner& owner : book.take(entry).owners)
      if (owner.is_shown()) first_call[at] = std::min(first_call[at], calls[owner.message]);
    if (!entry.calls.empty()) calls.push_back(at);
  }
  std::vector<bool> out(rows.all.size());
  std::size_t first = rows.all.size();
  for (std::size_t at = rows.all.size(); at-- > 0;) {
    first = std::min(first, first_call[at]);
    out[at] = first < at;
  }
  return out;
}

}  // namespace

std::optional<CompactionPlan> plan_compaction(const Conversation& conversation, const CompactionSettings& settings,
                                              const OrderAsked& runs) {
  std::vector<Repaired> ignored;
  Rows rows = rows_of(conversation, ignored);
  mark_answers(rows);
  const auto messages = std::ranges::count_if(rows.all, [](const Row& row) { return !row.entry.synthetic; });
  std::set<std::string_view> kept(runs.active.begin(), runs.active.end());
  kept.insert(runs.waiting.begin(), runs.waiting.end());
  const auto is_kept = [&kept](const Row& row) { return kept.contains(row.id); };
  const auto most = static_cast<std::size_t>(std::ranges::find_if(rows.all, is_kept) - rows.all.begin());
  std::size_t first = rows.all.size();
  std::int64_t turns = 0;
  while (first > 0 && turns < settings.keep_turns)
    if (begins_turn(rows.all, --first)) ++turns;
  const auto last = last_by_id(conversation);
  const std::vector<bool> parts = parted(rows);
  const auto beginning = [&](std::size_t at, bool may_part) {
    const auto is_one = [&] {
      return begins_turn(rows.all, at) && last.at(rows.all[at].id) == rows.all[at].seq && (may_part || !parts[at]);
    };
    while (at > 0 && !is_one()) --at;
    return at;
  };
  first = std::min(first, most);
  const std::size_t whole = beginning(first, false);
  first = whole > 0 ? whole : beginning(first, true);
  if (messages < settings.min_messages || first == 0 || turns < settings.keep_turns) return {};

  CompactionPlan plan{.first_kept = rows.all[first].id, .count = first};
  if (conversation.checkpoint) plan.previous_summary = summary_of(*conversation.checkpoint);
  return plan;
}

}  // namespace sessiond::context
