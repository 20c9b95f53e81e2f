// Locks of sessions.json that the daemon takes for a client, for a script that edits the file by itself.
//
// A script that takes the lock file itself needs the whole protocol of store/lock/README.md. Here the daemon takes the
// lock, after the file holds all that is durable, keeps it for a time that the client names, and merges at the end what
// changed in the file like any foreign change. Meanwhile it neither reads nor writes the file; commits go on in the
// journal. A client that does not give the lock back loses it when its time is over.
// Thread: the loop; locks are taken and released on the agent's strand.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "daemon/ledger/checkpointer.hpp"
#include "store/lock/lock.hpp"

namespace sessiond::ledger {

class LentLocks {
 public:
  struct Lease {
    std::string id;
    std::string path;             // of the lock
    std::string actor;            // the client
    std::int64_t expires_at = 0;  // ms since the epoch
  };

  LentLocks(LedgerEnv& env, Commits& commits, Notices& notices, Agents& agents, Checkpointer& checkpointer)
      : env_(env), commits_(commits), notices_(notices), agents_(agents), checkpointer_(checkpointer) {}

  // Lends the agent's lock for `ttl_ms`. Waits up to `wait_ms` for another client or program that has it; then
  // lock_timeout. agent_not_found, degraded.
  asio::awaitable<Result<Lease>> lend(std::string agent, std::int64_t ttl_ms, std::int64_t wait_ms, std::string actor);
  // Moves the end of the lease to `ttl_ms` from now. not_found: it has ended, or a foreign program has taken the lock
  // away.
  asio::awaitable<Result<Lease>> renew(std::string agent, std::string id, std::int64_t ttl_ms);
  // Ends the lease. When this returns, what the client wrote is durable and served. not_found: it has ended.
  asio::awaitable<Result<void>> give_back(std::string agent, std::string id);
  const Lease* find(const std::string& agent) const;  // null: it is not lent
  asio::awaitable<void> stop();                       // ends all of them

 private:
  struct Lent {
    Lent(asio::io_context& io, Lease terms, std::shared_ptr<lock::FileLock> held)
        : lease(std::move(terms)), lock(std::move(held)), timer(io) {}
    void set_time(std::int64_t ttl_ms) {
      deadline = store::steady_ms() + ttl_ms;
      timer.expires_after(std::chrono::milliseconds(ttl_ms));
    }
    Lease lease;
    std::shared_ptr<lock::FileLock> lock;
    asio::steady_timer timer;   // until it expires
    std::int64_t deadline = 0;  // steady ms
    bool ended = false;
  };
  asio::awaitable<Result<Lease>> lend_once(std::string agent, std::int64_t ttl_ms, std::string actor);
  std::shared_ptr<Lent> find_lent(const std::string& agent, std::string_view id) const;
  asio::awaitable<void> watch(std::string agent, std::shared_ptr<Lent> lent);
  asio::awaitable<Result<void>> end(std::string agent, std::shared_ptr<Lent> lent, bool writer_may_go_on);

  LedgerEnv& env_;
  Commits& commits_;
  Notices& notices_;
  Agents& agents_;
  Checkpointer& checkpointer_;
  std::map<std::string, std::shared_ptr<Lent>> lent_{};  // by agent
};

}  // namespace sessiond::ledger
