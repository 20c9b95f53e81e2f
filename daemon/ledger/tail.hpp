// The newest durable events in memory, bounded by bytes: what live streams read. Readers are cursors (a seq); one that
// fell behind oldest() reads the journal instead. One thread: the ledger's.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/intrusive/list.hpp>
#include <chrono>
#include <cstdint>
#include <deque>

#include "store/event.hpp"

namespace sessiond {

class Tail;

// A reader's place to wait in. Either of the two, follower and tail, may go first.
class TailFollower
    : public boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
 public:
  using Clock = std::chrono::steady_clock;

  TailFollower(Tail& tail, const boost::asio::any_io_executor& executor);

  // Until the tail wakes all, wake() this one, or the time has come. A wake that finds nobody waiting is lost, so look
  // at everything that matters first, with no co_await in between. May also return for no reason.
  boost::asio::awaitable<void> wait(Clock::time_point until);
  void wake() { timer_.cancel(); }

 private:
  boost::asio::steady_timer timer_;
};

class Tail {
 public:
  Tail(std::uint64_t head, std::size_t max_bytes) : head_(head), max_bytes_(max_bytes) {}

  void push(Event event);  // seq head()+1
  void wake();             // after a batch, and when streams must look at something else (shutdown, tokens)

  std::uint64_t head() const { return head_; }
  std::uint64_t oldest() const { return head_ + 1 - events_.size(); }  // first seq held; head()+1 when empty
  const Event& at(std::uint64_t seq) const { return events_[static_cast<std::size_t>(seq - oldest())]; }

 private:
  friend class TailFollower;

  std::deque<Event> events_;
  std::uint64_t head_;
  std::size_t bytes_ = 0;
  std::size_t max_bytes_;
  boost::intrusive::list<TailFollower, boost::intrusive::constant_time_size<false>> followers_;
};

}  // namespace sessiond
