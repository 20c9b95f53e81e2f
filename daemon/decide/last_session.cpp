#include "daemon/decide/last_session.hpp"

#include <ranges>

namespace sessiond::decide {

bool is_open_to(const Session& session, const Sees& sees) { return !session.archived_at && (!sees || sees(session)); }

const Session* first_open(const AgentState& state, const std::vector<std::string>& keys, const Sees& sees) {
  for (const std::string& key : keys)
    if (const Session* session = state.find_key(key); session != nullptr && is_open_to(*session, sees)) return session;
  return nullptr;
}

std::string last_session_id(const AgentState& state) {
  if (const Session* used = first_open(state, state.last_used.of_agent(), {})) return used->session_id;
  constexpr std::ptrdiff_t most = 100;
  for (const Session* session : state.by_updated() | std::views::reverse | std::views::take(most))
    if (is_open_to(*session, {})) return session->session_id;
  return {};
}

}  // namespace sessiond::decide
