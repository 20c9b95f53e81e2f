// Knows which runner took a run of which session, and when. A runner that took nothing for runs.runnerIdleMs is
// evicted: forgotten, and runner.evicted tells it once. What runners took before the daemon started is not known.
// Thread: the loop.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>

#include "daemon/decide/events.hpp"
#include "daemon/ledger/ledger.hpp"
#include "daemon/runtime/deadlines.hpp"

namespace sessiond::leases {

class Runners {
 public:
  using Place = std::pair<std::string, std::string>;  // agent and key
  struct Taken {
    std::int64_t time = 0;       // ms since the epoch
    std::int64_t steady_ms = 0;  // the same on the monotonic clock
  };
  using Sessions = std::map<Place, Taken>;

  explicit Runners(ledger::Ledger& ledger);

  void start();
  boost::asio::awaitable<void> stop();
  void see(const decide::Change& event);  // that became durable

  // By the names that runners gave themselves: the sessions of which they took a run.
  const std::map<std::string, Sessions>& all() const { return all_; }

 private:
  void look_for_idle_later();
  boost::asio::awaitable<void> evict_idle();

  ledger::Ledger& ledger_;
  const runtime::Clock& clock_;
  ledger::Background background_;
  std::map<std::string, Sessions> all_{};
  runtime::Deadlines<std::monostate> next_look_;
};

}  // namespace sessiond::leases
