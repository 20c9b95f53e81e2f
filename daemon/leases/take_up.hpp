// After a start, what has deadlines takes up what it kept before: leases, approvals, deliveries. Thread: the loop.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <set>
#include <string>

#include "daemon/decide/agent_state.hpp"
#include "daemon/ledger/ledger.hpp"

namespace sessiond::leases {

struct TakeUp {
  std::string what{};                 // for the log: "leases"
  std::set<std::string> recovered{};  // agents of which the journal had something beyond their files
  std::function<bool(const std::string& agent)> may_be_open{};  // looks at the agent's file; blocks
  std::function<void(const decide::AgentState& state)> take{};  // called with each agent that may have something open
  std::function<void(const std::string& agent)> on_failure{};   // the agent cannot be read; may be empty
};
// A TakeUp::may_be_open that looks for runs. Thread: the loop.
std::function<bool(const std::string& agent)> may_have_runs(ledger::Ledger& ledger);
// Agents that have nothing open stay out of memory. Ends early when `stopping` becomes true.
asio::awaitable<void> take_up_open(ledger::Ledger& ledger, TakeUp how, const bool& stopping);

}  // namespace sessiond::leases
