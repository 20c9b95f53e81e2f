#include "daemon/decide/agent_state.hpp"

#include "store/names.hpp"
#include "transcripts/origins.hpp"

namespace sessiond::decide {

std::optional<AgentState::Owner> AgentState::owner_of(std::string_view file) const {
  if (const Session* session = owner_of_own(file)) return Owner{session, {}};
  for (std::size_t at = file.find(topic_mark); at != std::string_view::npos; at = file.find(topic_mark, at + 1)) {
    const std::string_view id = file.substr(0, at);
    const Session* session = find_session_id(id);
    auto topic = store::topic_of_file(id, file);
    if (session != nullptr && topic && file_of(*session, topic) == file) return Owner{session, std::move(topic)};
  }
  return {};
}

bool AgentState::may_use(const Session& session, std::string_view file) const {
  const auto owner = owner_of(file);
  return !owner || owner->session->key() == session.key() || owner->session->session_id == session.session_id;
}

std::string AgentState::transcript_name_of(std::string_view file) const {
  const auto owner = owner_of(file);
  return owner ? transcripts::transcript_name(owner->session->session_id, owner->topic) : "";
}

context::OrderAsked AgentState::order_of(const Session& session, std::string_view file) const {
  context::OrderAsked order;
  const SessionRuns* there = runs.find(session.key());
  if (there == nullptr) return order;
  const auto is_here = [&](const Run& run) { return file_of(session, run.topic) == file; };
  for (const Run& run : there->queued)
    if (is_here(run)) order.waiting.insert(order.waiting.end(), run.input.begin(), run.input.end());
  if (there->active && is_here(*there->active)) order.active = there->active->input;
  return order;
}

}  // namespace sessiond::decide
