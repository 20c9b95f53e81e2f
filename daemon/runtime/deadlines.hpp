// Ids that are due at a time, and the loop that calls back for each when its time has come:
//
//   Deadlines<std::string> deadlines(io, clock, [this](const std::string& id) { expire(id); });
//   background.run(deadlines.run(), "approvals");
//   deadlines.set(id, deadlines.now() + timeout_ms);
//
// An id is erased before its callback. A callback that wants to be called again sets it again. A round goes in the
// order of the times. It calls back for an id once, or not at all if another callback of the round has erased the id or
// set it to a later time. No call walks over all ids.
//
// The owner stops the loop and waits for run() to end before it destroys this. Times are steady ms. Thread: the loop.
#pragma once

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/runtime/clock.hpp"

namespace sessiond {
namespace asio = boost::asio;
}

namespace sessiond::runtime {

inline constexpr std::int64_t never = INT64_MAX;

template <class Id>
class Deadlines {
 public:
  using OnDue = std::function<void(const Id& id)>;
  // Called when the process was stopped and wakes so much too late: once, before the callbacks of the round.
  using OnOverslept = std::function<void(std::int64_t late_ms)>;

  Deadlines(asio::io_context& io, const Clock& clock, OnDue on_due, OnOverslept on_overslept = {})
      : clock_(clock), timer_(io), on_due_(std::move(on_due)), on_overslept_(std::move(on_overslept)) {}
  Deadlines(const Deadlines&) = delete;
  Deadlines& operator=(const Deadlines&) = delete;

  std::int64_t now() const { return clock_.steady_ms(); }

  // Replaces the time that the id had.
  void set(const Id& id, std::int64_t at) {
    const auto [entry, is_new] = ids_.try_emplace(id);
    if (!is_new) times_.erase(entry->second);
    entry->second = times_.emplace(at, &entry->first);
    if (at < sleeps_until_) timer_.cancel();
  }
  void erase(const Id& id) {
    if (const auto entry = ids_.find(id); entry != ids_.end()) erase(entry);
  }
  // Returns when the id is due. Nothing: it is not set.
  std::optional<std::int64_t> of(const Id& id) const {
    const auto entry = ids_.find(id);
    return entry == ids_.end() ? std::nullopt : std::optional(entry->second->first);
  }
  std::int64_t next() const { return times_.empty() ? never : times_.begin()->first; }
  std::size_t size() const { return ids_.size(); }

  // One round: calls back for what is due now. run() does this again and again. Tests turn the clock and call it.
  void fire() {
    const std::int64_t time = now();
    notice_oversleeping(time);
    for (const Id& id : due_at(time)) {
      if (is_stopped_) return;
      const auto entry = ids_.find(id);
      if (entry == ids_.end() || entry->second->first > time) continue;
      erase(entry);
      on_due_(id);
    }
  }
  asio::awaitable<void> run() {
    while (!is_stopped_) {
      fire();
      if (is_stopped_) break;
      const std::int64_t time = now();
      sleeps_until_ = std::clamp(next(), time, time + longest_sleep_ms);
      // It sleeps for 1 ms at least, so that an id that is set again at once does not keep the loop from other work.
      const std::int64_t sleep = std::clamp<std::int64_t>(sleeps_until_ - time, 1, clock_.longest_sleep_ms);
      timer_.expires_after(std::chrono::milliseconds(sleep));
      boost::system::error_code woken;
      co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, woken));
    }
  }
  // Ends the callbacks, and run(), also a run() that is called later.
  void stop() {
    is_stopped_ = true;
    timer_.cancel();
  }
  const bool& is_stopped() const { return is_stopped_; }

 private:
  using Times = std::multimap<std::int64_t, const Id*>;
  using Ids = std::map<Id, typename Times::iterator, std::less<>>;
  static constexpr std::int64_t awake = INT64_MIN;
  static constexpr std::int64_t longest_sleep_ms = 60'000;
  static constexpr std::int64_t stopped_ms = 500;  // a loop that wakes so late was not busy, but stopped

  void erase(typename Ids::iterator entry) {
    times_.erase(entry->second);
    ids_.erase(entry);
  }
  // Copied: a callback may erase any id.
  std::vector<Id> due_at(std::int64_t time) const {
    std::vector<Id> due;
    for (auto entry = times_.begin(); entry != times_.end() && entry->first <= time; ++entry)
      due.push_back(*entry->second);
    return due;
  }
  // A request may have woken the loop before its timer did: it has overslept all the same.
  void notice_oversleeping(std::int64_t time) {
    const std::int64_t until = std::exchange(sleeps_until_, awake);
    if (until == awake) return;
    timer_.cancel();  // in a test the loop still sleeps, and sets its timer anew
    if (on_overslept_ && time - until > stopped_ms) on_overslept_(time - until);
  }

  const Clock& clock_;
  asio::steady_timer timer_;
  OnDue on_due_;
  OnOverslept on_overslept_;
  Times times_{};  // the first is due next; those of one time stay in the order in which they were set
  Ids ids_{};
  std::int64_t sleeps_until_ = awake;
  bool is_stopped_ = false;
};

}  // namespace sessiond::runtime
