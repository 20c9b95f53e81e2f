// Requests that wait until something has happened. A request takes a place, looks, and waits while there was nothing to
// see. It has its place before it looks, so that no news passes between the look and the wait:
//
//   LongPoll<std::string>::Place place(polls, id, until, gone);
//   for (;;) {
//     if (co_await look(id)) co_return found;
//     if (const Woken woken = co_await place.wait(); woken != Woken::news) co_return nothing;
//   }
//
// A request that has slept always looks once more, also when it wakes because its time is over. Thread: the loop.
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
#include <list>
#include <utility>

#include "daemon/runtime/deadlines.hpp"
#include "store/problem.hpp"

namespace sessiond::runtime {

enum class Woken : std::uint8_t {
  news,      // look again
  deadline,  // the time is over
  draining,  // the daemon stops
  gone,      // nobody waits for the answer any more
};

// Returns the problem that answers a request whose wait ended with Woken::gone.
inline std::unexpected<Problem> client_has_gone() {
  return fail(Code::request_timeout, "the client has gone, or its token is not valid any more");
}

template <class Topic>
class LongPoll {
 public:
  LongPoll(asio::io_context& io, const Clock& clock) : io_(io), clock_(clock) {}
  LongPoll(const LongPoll&) = delete;
  LongPoll& operator=(const LongPoll&) = delete;
  // A coroutine that is destroyed before it has run may destroy its place later than this.
  ~LongPoll() {
    for (Place* place : places_) place->polls_ = nullptr;
  }

  class Place {
   public:
    // `until`: steady ms. `gone` may be empty.
    Place(LongPoll& polls, Topic about, std::int64_t until, std::function<bool()> gone)
        : topic(std::move(about)),
          polls_(&polls),
          until_(until),
          gone_(std::move(gone)),
          timer_(polls.io_),
          at_(polls.places_.insert(polls.places_.end(), this)) {}
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place() {
      if (polls_ != nullptr) polls_->places_.erase(at_);
    }

    // To be called after each look. Sleeps until there is news, or until the steady ms `also`, which counts as news.
    asio::awaitable<Woken> wait(std::int64_t also = never) {
      for (bool has_slept = false;; has_slept = true) {
        if (is_gone()) co_return Woken::gone;
        const bool drains = polls_ == nullptr || polls_->is_draining_;
        const std::int64_t now = drains ? 0 : polls_->clock_.steady_ms();
        const bool is_last = drains || now >= until_;
        if (is_last && !has_slept) co_return drains ? Woken::draining : Woken::deadline;
        if (std::exchange(has_news_, false) || is_last || now >= also) co_return Woken::news;
        const std::int64_t sleep = std::min(std::min(until_, also) - now, polls_->clock_.longest_sleep_ms);
        timer_.expires_after(std::chrono::milliseconds(sleep));
        boost::system::error_code woken;
        co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, woken));
      }
    }
    // The request goes on later, not within this call. News that comes before it waits is kept until then.
    void tell() {
      has_news_ = true;
      timer_.cancel();
    }
    bool is_gone() const { return gone_ && gone_(); }

    Topic topic;

   private:
    friend class LongPoll;
    LongPoll* polls_;
    std::int64_t until_;
    std::function<bool()> gone_;
    asio::steady_timer timer_;
    typename std::list<Place*>::iterator at_;
    bool has_news_ = false;
  };

  // Tells all that wait for such a topic.
  template <class Wants>
  void wake(Wants wants) {
    for (Place* place : places_)
      if (wants(std::as_const(place->topic))) place->tell();
  }
  // Those that wait look once more, and then nobody waits any more.
  void drain() {
    is_draining_ = true;
    for (Place* place : places_) place->timer_.cancel();
  }
  bool is_draining() const { return is_draining_; }
  const std::list<Place*>& places() const { return places_; }  // the longest first

 private:
  asio::io_context& io_;
  const Clock& clock_;
  std::list<Place*> places_{};
  bool is_draining_ = false;
};

}  // namespace sessiond::runtime
