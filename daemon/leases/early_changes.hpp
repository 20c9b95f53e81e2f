// Tells of edits and deletions whose messages did not come in time (daemon/decide/early_changes.hpp).
//
// Deadlines run on the monotonic clock. After a restart a change has what is left of its time by the wall clock or by
// the clock of ages, whichever is more, and never more than it had at first. Thread: the loop.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "daemon/decide/early_changes.hpp"
#include "daemon/ledger/ledger.hpp"
#include "daemon/runtime/deadlines.hpp"
#include "store/journal/event.hpp"

namespace sessiond::leases {

class EarlyChanges {
 public:
  explicit EarlyChanges(ledger::Ledger& ledger);

  void start();  // takes up the changes of before
  asio::awaitable<void> stop();
  void see(const journal::Event& event);  // that became durable

 private:
  asio::awaitable<void> take_up(std::set<std::string> recovered);
  void keep(const std::string& agent, const decide::EarlyChange& change, std::int64_t rest);
  void forget(const std::string& id);
  asio::awaitable<void> lose(std::string agent, std::string id);

  ledger::Ledger& ledger_;
  ledger::Background background_;
  std::map<std::string, std::string, std::less<>> agents_{};  // of each change that waits, by its id
  runtime::Deadlines<std::string> deadlines_;                 // of each of these
};

}  // namespace sessiond::leases
