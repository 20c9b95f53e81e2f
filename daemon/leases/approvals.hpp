// Keeps the open approvals of all agents (policy/runs/README.md): denies those that nobody has answered by their
// deadline, knows in which sessions there are any, and lets requests wait for an answer.
//
// Deadlines run on the monotonic clock. After a restart an approval has what is left of its time by the wall clock or
// by the clock of ages, whichever is more, and never more than it had at first. Thread: the loop.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "daemon/decide/approval.hpp"
#include "daemon/decide/events.hpp"
#include "daemon/ledger/ledger.hpp"
#include "daemon/runtime/deadlines.hpp"
#include "daemon/runtime/long_poll.hpp"
#include "daemon/runtime/waiters.hpp"

namespace sessiond::leases {

class Approvals {
 public:
  using Place = std::pair<std::string, std::string>;  // agent and key

  explicit Approvals(ledger::Ledger& ledger);

  void start();  // takes up the approvals of before
  asio::awaitable<void> stop();
  void see(const decide::Change& event);  // that became durable
  void drain() { polls_.drain(); }        // requests that wait are answered

  std::size_t open() const { return open_.size(); }
  // The sessions that have open approvals. Waits until those of before the start are known.
  asio::awaitable<std::set<Place>> places();

  struct Wish {
    std::string id{};
    std::int64_t wait_ms = 0;
    std::function<bool()> gone{};  // the client has closed its connection
    // Looks at the approval. True: it is decided, there is nothing to wait for.
    std::function<asio::awaitable<Result<bool>>()> look{};
  };
  // Looks at once, and again when the approval is decided or the time is over. request_timeout: the client has gone.
  asio::awaitable<Result<void>> follow(Wish wish);

 private:
  asio::awaitable<void> take_up(std::set<std::string> recovered);
  void take_up_agent(const decide::AgentState& state);
  void keep(const Place& place, const decide::Approval& approval, std::int64_t rest);
  void forget(const std::string& id);
  asio::awaitable<void> expire(Place place, std::string id);

  ledger::Ledger& ledger_;
  const runtime::Clock& clock_;
  ledger::Background background_;
  std::map<std::string, Place, std::less<>> open_{};  // by id
  runtime::Deadlines<std::string> deadlines_;         // of each of these
  runtime::LongPoll<std::string> polls_;
  runtime::Waiters taken_up_{};
  bool is_taken_up_ = false;
};

}  // namespace sessiond::leases
