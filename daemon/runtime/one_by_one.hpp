// Runs long tasks one at a time, so that they never take all threads of a pool. A task that waits for its turn holds no
// thread. Tasks must not throw. Thread: the one that waits.
//   auto read = co_await passes.run(run_on(pool, [] { return read_all(); }));
#pragma once

#include <utility>

#include "daemon/runtime/waiters.hpp"

namespace sessiond::runtime {

class OneByOne {
 public:
  template <class T>
  asio::awaitable<T> run(asio::awaitable<T> task) {
    while (busy_) co_await ended_.wait(0);
    busy_ = true;
    T value = co_await std::move(task);
    busy_ = false;
    ended_.release(0);
    co_return value;
  }

 private:
  bool busy_ = false;
  Waiters ended_{};
};

}  // namespace sessiond::runtime
