// Says what keeps a session where it is, while the daemon would take it away or out of memory by itself. It is the one
// answer to that question: maintenance asks when it selects and again when it takes, also for its disk limit, and so do
// S/release and the unloading of idle transcripts. What a client asks for (DELETE, a reset) is done all the same, and
// ends the session's runs. Pure.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/decide/agent_state.hpp"

namespace sessiond::decide {

// Returns what is under way in a session: "run" (active or waiting; its approvals with it), "takeover" (a person speaks
// in place of the agent), or "delivery" (not sent yet). Empty: nothing.
std::string_view work_in(const AgentState& state, const Session& session);

// Sessions that have a stream of their own: agent and key.
using Streamed = std::set<std::pair<std::string, std::string>>;

// Sessions that maintenance leaves where they are, besides those with children, with a pin, or with work under way.
struct Protection {
  std::vector<std::string> preserve{};  // prefixes of keys
  Streamed streamed{};
  std::string main_key = "main";  // of an agent's main session, without "agent:<agent>:"

  // Returns why it stays: main, stream, preserve, pinned, children, run, takeover or delivery. Empty: nothing keeps it.
  std::string_view keeps(const AgentState& state, const Session& session) const;
};

}  // namespace sessiond::decide
