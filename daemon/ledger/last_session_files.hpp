// Keeps the files last_session (book_files.hpp) up to date, within a second. They do not wait for sessions.json, which
// may be large, or locked. CHECKPOINT waits for them, so a kill loses none. Thread: the loop.
#pragma once

#include <boost/asio/steady_timer.hpp>

#include "daemon/ledger/agents.hpp"
#include "daemon/runtime/one_by_one.hpp"

namespace sessiond::ledger {

class LastSessionFiles {
 public:
  LastSessionFiles(LedgerEnv& env, Commits& commits, Agents& agents)
      : env_(env), commits_(commits), agents_(agents), timer_(env.io) {}

  asio::awaitable<void> run();  // until the daemon stops
  void wake() { timer_.cancel(); }
  // Returns once the files say what is durable now. One that cannot be written is tried again by run().
  asio::awaitable<Result<void>> follow() { return turn_.run(follow_now()); }

 private:
  asio::awaitable<Result<void>> follow_now();

  LedgerEnv& env_;
  Commits& commits_;
  Agents& agents_;
  asio::steady_timer timer_;
  runtime::OneByOne turn_{};
};

}  // namespace sessiond::ledger
