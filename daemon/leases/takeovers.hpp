// Hands back, for a person who speaks in place of an agent (policy/runs/README.md, Takeover), when the time is over.
//
// Times run on the monotonic clock. After a restart a takeover has what is left of its time by the wall clock or by the
// clock of ages, whichever is more, and never more than it had at first. Thread: the loop.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "daemon/decide/events.hpp"
#include "daemon/decide/takeover.hpp"
#include "daemon/ledger/ledger.hpp"
#include "daemon/runtime/deadlines.hpp"

namespace sessiond::leases {

class Takeovers {
 public:
  explicit Takeovers(ledger::Ledger& ledger);

  void start();  // takes up those of before
  asio::awaitable<void> stop();
  void see(const decide::Change& event);  // that became durable
  std::size_t size() const { return for_ms_.size(); }

 private:
  using Place = std::pair<std::string, std::string>;  // agent and key

  asio::awaitable<void> take_up(std::set<std::string> recovered);
  void keep(const Place& place, const decide::Takeover& takeover, std::int64_t rest);
  void forget(const Place& place);
  asio::awaitable<void> expire(Place place);

  ledger::Ledger& ledger_;
  ledger::Background background_;
  std::map<Place, std::int64_t> for_ms_{};  // how long each lasts after the person's next word
  runtime::Deadlines<Place> deadlines_;     // of each of these
};

}  // namespace sessiond::leases
