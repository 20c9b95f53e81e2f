// Hands queued runs to the runners that wait for one. A run goes to the waiting runner that had its session last, else
// to the one that waits longest. A run that was offered to one is offered to no other until that one has answered.
// Thread: the loop.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "daemon/decide/agent_state.hpp"
#include "daemon/leases/leases.hpp"
#include "daemon/ledger/ledger.hpp"
#include "daemon/runtime/long_poll.hpp"

namespace sessiond::leases {

class Claims {
 public:
  explicit Claims(ledger::Ledger& ledger)
      : ledger_(ledger),
        leases_(ledger, [this](const std::string& agent, const std::string& key) { ready(agent, key); }),
        polls_(ledger.parts().env.io, ledger.parts().env.clock) {}

  Leases& leases() { return leases_; }

  struct Wish {
    std::string agent{};
    std::string runner{};
    // Says whether the runner may have a run of this session.
    std::function<bool(const decide::AgentState&, const decide::Session&)> wants{};
    std::function<bool()> gone{};  // the client has closed its connection
    std::int64_t wait_ms = 0;
    // Commits the claim. Nothing: it was another's by now.
    std::function<asio::awaitable<Result<std::optional<ledger::Reply>>>(std::string key, std::string run_id)> take{};
  };
  // Nothing: no run came in time. Ends early when drain() is called.
  asio::awaitable<Result<std::optional<ledger::Reply>>> claim(Wish wish);
  void drain() { polls_.drain(); }  // those that wait get nothing
  std::size_t waiting() const { return polls_.places().size(); }

  // While hooks are asked about a run that is to start, its session is busy for all others.
  struct Hold {
    std::string run_id{};
    std::string request{};  // the Idempotency-Key of the request that starts it; empty: none
  };
  // Holds a session until the result is destroyed.
  [[nodiscard]] std::shared_ptr<void> hold(const std::string& agent, const std::string& key, Hold hold);
  const Hold* held(const std::string& agent, const std::string& key) const;  // null: it is not

 private:
  struct Offered {
    const Wish* wish = nullptr;
    std::optional<std::string>* key = nullptr;  // of the session whose run is offered; nothing: none is
  };
  using Polls = runtime::LongPoll<Offered>;
  using Place = std::pair<std::string, std::string>;                 // agent and key
  using Found = std::optional<std::pair<std::string, std::string>>;  // key and run id

  void ready(const std::string& agent, const std::string& key);
  void free(const std::string& agent, const std::string& key);
  // Returns whether this run is to wait no longer, and is not another's.
  bool is_free(const std::string& agent, const std::string& key, const std::string& run_id) const;
  // Returns the first session that has a run for this wish.
  Found find(const decide::AgentState& state, const Wish& wish, const std::set<std::string>& passed_over) const;
  asio::awaitable<Result<Found>> look(const Wish& wish, const std::set<std::string>& passed_over);

  ledger::Ledger& ledger_;
  Leases leases_;
  Polls polls_;
  std::set<Place> offered_{};
  std::map<Place, Hold> held_{};
};

}  // namespace sessiond::leases
