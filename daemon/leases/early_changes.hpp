// Tells of edits and deletions whose messages did not come in time (daemon/decide/early_changes.hpp).
//
// Deadlines run on the monotonic clock. After a restart a change has what is left of its time by the wall clock or by
// the clock of ages, whichever is more, and never more than it had at first. Thread: the loop.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "daemon/decide/early_changes.hpp"
#include "daemon/ledger/ledger.hpp"
#include "store/journal/event.hpp"

namespace sessiond::leases {

class EarlyChanges {
 public:
  explicit EarlyChanges(ledger::Ledger& ledger);

  void start();  // takes up the changes of before
  asio::awaitable<void> stop();
  void see(const journal::Event& event);  // that became durable

 private:
  struct Kept {
    std::string agent{};
    std::int64_t until = 0;  // steady ms
  };

  asio::awaitable<void> take_up(std::set<std::string> recovered);
  void keep(const std::string& agent, const decide::EarlyChange& change, std::int64_t rest);
  void set_until(const std::string& id, std::int64_t until);
  void forget(const std::string& id);
  asio::awaitable<void> run();
  std::int64_t look(std::int64_t now);  // ends what is due; returns when the next is
  asio::awaitable<void> lose(std::string agent, std::string id);

  ledger::Ledger& ledger_;
  asio::steady_timer timer_;
  ledger::Background background_;
  std::map<std::string, Kept, std::less<>> kept_{};       // by id
  std::set<std::pair<std::int64_t, std::string>> due_{};  // until and id of each
  bool stopping_ = false;
};

}  // namespace sessiond::leases
