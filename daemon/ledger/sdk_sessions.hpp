// Finds the agents that have a session of an SDK session id, so that no two sessions of the store share one.
// An agent in memory is asked itself. Of one that has left memory the hashes of its ids are kept; if it may have the id
// it is brought back and asked. An agent that was never in memory since the start is read when an id is first asked
// for. A foreign change counts once the daemon has merged it.
// Thread: the loop.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/ledger/agents.hpp"

namespace sessiond::ledger {

class SdkSessions {
 public:
  SdkSessions(LedgerEnv& env, Agents& agents) : env_(env), agents_(agents) {}

  // Tells whether an agent other than `asking` has the id; nothing: learn() it first. An agent whose store cannot be
  // read counts by what was known of it before.
  std::optional<bool> is_elsewhere(std::string_view id, std::string_view asking) const;
  // Finds out which agents have the id. Fails if a store cannot be read now, but may be soon.
  asio::awaitable<Result<void>> learn(std::string id);
  // Lists the agents that have the id, and those of which that is not known; sorted.
  std::vector<std::string> agents_with(std::string_view id) const;

 private:
  enum class Has : std::uint8_t { no, yes, unknown };
  Has has(const Agent& agent, std::string_view id) const;
  asio::awaitable<Result<void>> learn_of(std::shared_ptr<Agent> agent, std::string id);

  LedgerEnv& env_;
  Agents& agents_;
  bool listed_ = false;  // every agent on disk was found once
};

}  // namespace sessiond::ledger
