// How Agents shows a state: makes the answer, and gives it once all that it rests on is durable. An answer that is
// taken back is made again.
#pragma once

#include <algorithm>

#include "daemon/ledger/agents.hpp"
#include "daemon/ledger/ledger.hpp"
#include "store/try.hpp"

namespace sessiond::ledger {

inline constexpr int most_shows = 5;  // when each was taken back

template <class Call>
asio::awaitable<std::invoke_result_t<Call&, const decide::AgentState&, Seen&>> Agents::show(std::string agent,
                                                                                            bool fresh, Call call) {
  for (int shows = 1;; ++shows) {
    const decide::AgentState* state = fresh ? nullptr : at_hand(agent);
    if (state == nullptr) {
      CO_TRY(state, co_await get(agent, fresh));
      fresh = false;
    }
    Seen seen(state->last_seq);
    auto answer = call(*state, seen);
    const std::uint64_t seq = answer ? seen.seq() : state->last_seq;
    if (seq <= commits_.durable()) co_return answer;
    const runtime::Waiters::Outcome why = co_await commits_.wait_for_outcome(seq);
    if (!why) co_return answer;
    if (commits_.failed() || shows == most_shows) co_return std::unexpected(*why);
  }
}

template <class Call>
asio::awaitable<std::invoke_result_t<Call&, const decide::AgentState&, Seen&>> show_memory(
    const decide::AgentState& state, Call call) {
  Seen seen(0);
  co_return call(state, seen);
}

// Ledger::show of the state that has the session of this name: the agent's ephemeral sessions, or the agent.
template <class Call>
auto show_of(Ledger& ledger, std::string agent, std::string_view session, bool fresh, Call call) {
  const decide::AgentState* state = ledger.parts().memory.holding(agent, session);
  if (state != nullptr) return show_memory(*state, std::move(call));
  return ledger.show(std::move(agent), fresh, std::move(call));
}

template <class Call>
asio::awaitable<std::invoke_result_t<Call&, const Agents::States&, Seen&>> Agents::show_all(
    std::vector<std::string> agents, bool fresh, Call call, std::vector<std::string>* degraded) {
  for (int shows = 1;;) {
    std::vector<std::string> there;
    if (degraded != nullptr) degraded->clear();
    for (const std::string& agent : agents) {
      if (fresh || at_hand(agent) == nullptr) {
        auto found = co_await get(agent, fresh);
        if (!found && found.error().code == Code::agent_not_found) continue;
        if (!found && is_of_one_agent(found.error().code) && degraded != nullptr) {
          degraded->push_back(agent);
          continue;
        }
        if (!found) co_return std::unexpected(std::move(found.error()));
      }
      there.push_back(agent);
    }
    fresh = false;
    States states;
    std::uint64_t last_seq = 0;
    for (const std::string& agent : there) {
      const Agent* loaded = &find_or_add(agent);
      if (!loaded->state) break;  // it left while another one was loaded
      states.push_back(loaded->state.get());
      last_seq = std::max(last_seq, loaded->state->last_seq);
    }
    if (states.size() < there.size()) continue;
    Seen seen(last_seq);
    auto answer = call(std::as_const(states), seen);
    if (last_seq <= commits_.durable()) co_return answer;
    const runtime::Waiters::Outcome why = co_await commits_.wait_for_outcome(last_seq);
    if (!why) co_return answer;
    if (commits_.failed() || shows++ == most_shows) co_return std::unexpected(*why);
  }
}

}  // namespace sessiond::ledger
