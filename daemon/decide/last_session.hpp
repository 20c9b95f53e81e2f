// Answers which session of an agent was used last (last_used.hpp). An archived session takes no messages, so it is none
// to go on with.
#pragma once

#include <string>
#include <vector>

#include "daemon/decide/agent_state.hpp"
#include "daemon/decide/commands.hpp"

namespace sessiond::decide {

// Tells whether a person may go on with the session. `sees`: as in the commands.
bool is_open_to(const Session& session, const Sees& sees);
// Finds the first session of a list of keys that a person may go on with. Null if there is none.
const Session* first_open(const AgentState& state, const std::vector<std::string>& keys, const Sees& sees);
// Returns the session id that agents/<agent>/last_session has; "" for no file. Looks at a few sessions only.
std::string last_session_id(const AgentState& state);

}  // namespace sessiond::decide
