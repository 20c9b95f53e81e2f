// Chooses what a session that begins as a copy of another one has of its entry: the model, the levels, how the agent
// runs, and what it may do. A fork is no way around a guardrail or the cap on turns. It has not the chat, the route,
// the name, the label, the status and the sessions of SDKs.
#pragma once

#include <string_view>

#include "store/json/raw_json.hpp"

namespace sessiond::policy {

json::Edit fork_edit(std::string_view entry);

}  // namespace sessiond::policy
