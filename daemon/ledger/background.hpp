// Coroutines that no request waits for: checkpoints, following foreign programs, telling of repairs. Thread: the loop.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <string_view>

#include "daemon/runtime/waiters.hpp"

namespace sessiond::ledger {

class Background {
 public:
  explicit Background(asio::io_context& io) : io_(io) {}
  // Starts a task. An exception in it ends the process, naming the task: the daemon would otherwise go on as if what
  // was begun were done. `name` must be a literal.
  void run(asio::awaitable<void> task, std::string_view name);
  asio::awaitable<void> wait_until_all_ended();

 private:
  asio::io_context& io_;
  int running_ = 0;
  runtime::Waiters ended_{};
};

}  // namespace sessiond::ledger
