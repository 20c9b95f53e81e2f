// Hands queued runs to the runners that wait for one. A run goes to the waiting runner that had its session last, else
// to the one that waits longest. A run that was offered to one is offered to no other until that one has answered.
// Thread: the loop.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "daemon/decide/agent_state.hpp"
#include "daemon/leases/leases.hpp"
#include "daemon/ledger/ledger.hpp"

namespace sessiond::leases {

class Claims {
 public:
  explicit Claims(ledger::Ledger& ledger)
      : ledger_(ledger),
        leases_(ledger, [this](const std::string& agent, const std::string& key) { ready(agent, key); }) {}

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
  // Nothing: no run came in time. Ends early when `draining` becomes true and drain() is called.
  asio::awaitable<Result<std::optional<ledger::Reply>>> claim(Wish wish, const bool& draining);
  void drain();  // those that wait get nothing
  std::size_t waiting() const { return waiting_.size(); }

  // While hooks are asked about a run that is to start, its session is busy for all others.
  struct Hold {
    std::string run_id{};
    std::string request{};  // the Idempotency-Key of the request that starts it; empty: none
  };
  // Holds a session until the result is destroyed.
  [[nodiscard]] std::shared_ptr<void> hold(const std::string& agent, const std::string& key, Hold hold);
  const Hold* held(const std::string& agent, const std::string& key) const;  // null: it is not

 private:
  struct Waiter {
    const Wish* wish = nullptr;
    asio::steady_timer timer;
    std::optional<std::string> offer{};  // a key
  };
  using Place = std::pair<std::string, std::string>;

  void ready(const std::string& agent, const std::string& key);
  void free(const std::string& agent, const std::string& key);
  // The first session that has a run for this wish: key and run id.
  std::optional<std::pair<std::string, std::string>> find(const decide::AgentState& state, const Wish& wish,
                                                          const std::set<std::string>& passed_over) const;

  ledger::Ledger& ledger_;
  Leases leases_;
  std::list<Waiter> waiting_{};  // the longest first
  std::set<Place> offered_{};
  std::map<Place, Hold> held_{};
};

}  // namespace sessiond::leases
