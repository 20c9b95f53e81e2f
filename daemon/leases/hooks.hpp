// Keeps the calls of hooks that no handler has answered yet (policy/runs/README.md), expires those whose time is over,
// and lets requests wait for what the handlers say. It also stores the hooks that clients make.
//
// Calls live in memory: a daemon that stops forgets them, and so does whoever waited. Deadlines run on the monotonic
// clock. Thread: the loop.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/decide/events.hpp"
#include "daemon/decide/hooks.hpp"
#include "daemon/ledger/ledger.hpp"
#include "daemon/runtime/deadlines.hpp"
#include "daemon/runtime/long_poll.hpp"
#include "daemon/runtime/one_by_one.hpp"

namespace sessiond::leases {

class Hooks {
 public:
  using Place = std::pair<std::string, std::string>;  // agent and key

  explicit Hooks(ledger::Ledger& ledger);

  void start();
  asio::awaitable<void> stop();
  void see(const decide::Change& event);  // that became durable
  void drain() { polls_.drain(); }        // requests that wait are answered

  const runs::HookList& list() const { return *ledger_.parts().env.hooks; }
  // Changes the list, once that is durable: with a hook of this name, or without it. hook_exists: there is one of this
  // name that the requester may not change; validation_failed: too many of the owner.
  asio::awaitable<Result<void>> put(runs::Hook hook, std::function<bool(const runs::Hook&)> may_change);
  asio::awaitable<Result<void>> erase(std::string name);

  struct Call {
    Place place{};
    decide::HookCall call{};
    std::optional<decide::HookTold> outcome{};  // what ended it; nothing: it is open
    bool is_expired = false;                    // nobody answered in time
    bool is_ending = false;                     // a commit is on its way that ends it
    bool blocks_on_timeout = false;
    std::int64_t until = 0;  // steady ms
  };
  // A call that is open, or one of the last that have ended. Null: none.
  std::shared_ptr<const Call> find(const std::string& id) const;
  // Begins to end a call. False: it has ended, or somebody else is ending it.
  bool begin_end(const std::string& id);
  void undo_end(const std::string& id);  // the commit failed

  // Waits for what the handlers say. `calls` is the body of a decision with the status `decide::asked`. draining: the
  // daemon stops; request_timeout: the client has gone.
  asio::awaitable<Result<runs::HookVerdict>> wait(std::string calls, std::function<bool()> gone);

 private:
  using Calls = std::vector<std::shared_ptr<const Call>>;
  using ListChange = std::function<Result<void>(runs::HookList&)>;
  // Each change begins with the list that the one before has left.
  asio::awaitable<Result<void>> change(ListChange how) { return changes_.run(change_now(std::move(how))); }
  asio::awaitable<Result<void>> change_now(ListChange how);
  void keep(const journal::Envelope& about, const decide::HookTold& called);
  void end(const decide::HookTold& outcome, bool is_expired);
  void tell_those_that_wait_for(const std::shared_ptr<const Call>& call);
  void call_is_due(const std::string& id);
  asio::awaitable<void> expire(std::shared_ptr<Call> call);

  ledger::Ledger& ledger_;
  const runtime::Clock& clock_;
  ledger::Background background_;
  std::map<std::string, std::shared_ptr<Call>, std::less<>> calls_{};  // by id: those that are open, and the last ended
  runtime::Deadlines<std::string> deadlines_;                          // of those that are open
  std::deque<std::string> ended_{};                                    // ids, the oldest first
  runtime::LongPoll<Calls> polls_;
  runtime::OneByOne changes_{};
};

}  // namespace sessiond::leases
