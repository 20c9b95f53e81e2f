// Shows an agent's state to clients. Memory is ahead of the disk, and a state (or an absence) that was shown must not
// be taken back. So callers never hold a state: they give a function that makes the answer, and get the answer once all
// that it rests on is durable.
#pragma once

#include <algorithm>

#include "daemon/ledger/ledger.hpp"

namespace sessiond {

// The events that an answer depends on: all of the agent's, unless the call narrows it. A refusal depends on all.
class Seen {
 public:
  // Of an agent: nothing but this session, asked for by `key`. Found by any other name, it rests on which keys there
  // are not.
  void only(const Session& session, std::string_view key) {
    if (session.key() == key) seq_ = session.last_seq;
  }
  // Of the newest event that it may show.
  std::uint64_t seq() const { return seq_; }

 private:
  friend class Ledger;
  explicit Seen(std::uint64_t seq) : seq_(seq) {}
  std::uint64_t seq_;
};

inline constexpr int most_shows = 5;  // when each was taken back

template <class Call>
asio::awaitable<std::invoke_result_t<Call&, const AgentState&, Seen&>> Ledger::show(std::string agent, bool fresh,
                                                                                    Call call) {
  for (int shows = 1;; ++shows) {
    const AgentState* state = fresh ? nullptr : at_hand(agent);
    if (state == nullptr) {
      auto found = co_await this->agent(agent, fresh);
      if (!found) co_return std::unexpected(std::move(found.error()));
      state = *found;
      fresh = false;
    }
    Seen seen(state->last_seq);
    auto answer = call(*state, seen);
    const std::uint64_t seq = answer ? seen.seq() : state->last_seq;
    if (seq <= durable_) co_return answer;
    const Waiters::Outcome why = co_await taken_back(seq);
    if (!why) co_return answer;
    if (failed_ || shows == most_shows) co_return std::unexpected(*why);
  }
}

template <class Call>
asio::awaitable<std::invoke_result_t<Call&, const Ledger::States&, Seen&>> Ledger::show_all(
    std::vector<std::string> agents, bool fresh, Call call, std::vector<std::string>* degraded) {
  for (int shows = 1;;) {
    std::vector<std::string> there;
    if (degraded != nullptr) degraded->clear();
    for (const std::string& agent : agents) {
      if (fresh || at_hand(agent) == nullptr) {
        auto found = co_await this->agent(agent, fresh);
        if (!found && found.error().code == Code::agent_not_found) continue;
        if (!found && found.error().code == Code::degraded && degraded != nullptr) {
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
      const AgentState* state = in_memory(agent);
      if (state == nullptr) break;  // it left while another one was loaded
      states.push_back(state);
      last_seq = std::max(last_seq, state->last_seq);
    }
    if (states.size() < there.size()) continue;
    Seen seen(last_seq);
    auto answer = call(std::as_const(states), seen);
    if (last_seq <= durable_) co_return answer;
    const Waiters::Outcome why = co_await taken_back(last_seq);
    if (!why) co_return answer;
    if (failed_ || shows++ == most_shows) co_return std::unexpected(*why);
  }
}

}  // namespace sessiond
