// Coroutines that wait until a seq is durable (the output gate) or until something happened. Thread: the one that
// waits. `Checkpointer::room_` uses the number as a deadline in steady ms: it is released with UINT64_MAX.
#pragma once

#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "store/problem.hpp"

namespace sessiond {
namespace asio = boost::asio;
}

namespace sessiond::runtime {

class Waiters {
 public:
  // The problem that ended the wait; null when all is well.
  using Outcome = std::shared_ptr<const Problem>;

  asio::awaitable<Outcome> wait(std::uint64_t seq) {
    return asio::async_initiate<const asio::use_awaitable_t<>, void(Outcome)>(
        [this, seq](auto handler) {
          waiting_.push_back({seq, [handler = std::move(handler)](Outcome outcome) mutable {
                                std::move(handler)(std::move(outcome));
                              }});
        },
        asio::use_awaitable);
  }

  // Resumes all that wait for a seq up to `seq`; waits begun meanwhile stay for the next time.
  void release(std::uint64_t seq) {
    resume([seq](std::uint64_t wanted) { return wanted <= seq; }, nullptr);
  }
  void fail(std::uint64_t from, const Outcome& outcome) {
    resume([from](std::uint64_t wanted) { return wanted >= from; }, outcome);
  }
  // Ends the waits for a seq up to `to` with a problem.
  void expire(std::uint64_t to, const Outcome& outcome) {
    resume([to](std::uint64_t wanted) { return wanted <= to; }, outcome);
  }
  bool empty() const { return waiting_.empty(); }
  // Destroys the waiting coroutines without resuming them. For an owner that ends before they do: a coroutine may hold
  // the object that holds its wait, and neither would ever be freed.
  void abandon() { std::exchange(waiting_, {}).clear(); }

 private:
  struct Waiter {
    std::uint64_t seq = 0;
    std::move_only_function<void(Outcome)> resume;
  };

  template <class Which>
  void resume(Which which, const Outcome& outcome) {
    std::vector<Waiter> now = std::exchange(waiting_, {});  // who goes on may wait again
    for (Waiter& waiter : now) {
      if (!which(waiter.seq)) waiting_.push_back(std::exchange(waiter, {}));
    }
    for (Waiter& waiter : now) {
      if (waiter.resume) waiter.resume(outcome);
    }
  }

  std::vector<Waiter> waiting_;
};

}  // namespace sessiond::runtime
