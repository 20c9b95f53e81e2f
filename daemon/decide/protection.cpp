#include "daemon/decide/protection.hpp"

#include <algorithm>

#include "store/json/raw_json.hpp"
#include "store/names.hpp"

namespace sessiond::decide {

std::string_view work_in(const AgentState& state, const Session& session) {
  const SessionRuns* runs = state.runs.find(session.key());
  if (runs != nullptr && (runs->active || !runs->queued.empty())) return "run";
  if (runs != nullptr && runs->takeover) return "takeover";
  if (state.deliveries.has_unsent(session.key())) return "delivery";
  return {};
}

std::string_view Protection::keeps(const AgentState& state, const Session& session) const {
  const std::string& key = session.key();
  if (store::same_key(key, "agent:" + state.id() + ":" + main_key)) return "main";
  if (streamed.contains({state.id(), key})) return "stream";
  if (std::ranges::any_of(preserve, [&key](const std::string& prefix) { return store::key_begins_with(key, prefix); }))
    return "preserve";
  const auto pinned = json::find(*session.entry_with_old_counters(), "pinnedAt");
  if (pinned && *pinned != "null") return "pinned";
  if (!state.children(key).empty()) return "children";
  return work_in(state, session);
}

}  // namespace sessiond::decide
