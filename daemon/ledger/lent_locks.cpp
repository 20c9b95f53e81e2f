#include "daemon/ledger/lent_locks.hpp"

#include <fmt/format.h>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cassert>
#include <utility>

#include "daemon/runtime/log.hpp"
#include "daemon/runtime/run_on.hpp"
#include "store/fault_point.hpp"
#include "store/sessions/entry_history.hpp"
#include "store/try.hpp"

namespace sessiond::ledger {
namespace {

std::unexpected<Problem> no_such_lease(const std::string& agent) {
  return fail(Code::not_found, fmt::format("the lock of agent {} is not lent under this id", agent));
}

}  // namespace

const LentLocks::Lease* LentLocks::find(const std::string& agent) const {
  const auto found = lent_.find(agent);
  return found == lent_.end() ? nullptr : &found->second->lease;
}

std::shared_ptr<LentLocks::Lent> LentLocks::find_lent(const std::string& agent, std::string_view id) const {
  const auto found = lent_.find(agent);
  const bool there = found != lent_.end() && found->second->lease.id == id && !found->second->ended;
  return there ? found->second : nullptr;
}

asio::awaitable<Result<LentLocks::Lease>> LentLocks::lend(std::string agent, std::int64_t ttl_ms, std::int64_t wait_ms,
                                                          std::string actor) {
  const std::int64_t deadline = store::steady_ms() + wait_ms;
  const LockWaiter waits(env_.lock_waiters, env_.paths.store_file(agent));
  asio::steady_timer pause(env_.io);
  for (;;) {
    if (env_.draining) co_return fail(Code::draining, "the daemon is shutting down");
    auto lease = co_await lend_once(agent, ttl_ms, actor);
    if (lease || lease.error().code != Code::lock_timeout || store::steady_ms() >= deadline) co_return lease;
    pause.expires_after(std::chrono::milliseconds(env_.lock_poll_ms()));
    co_await pause.async_wait(asio::use_awaitable);
  }
}

asio::awaitable<Result<LentLocks::Lease>> LentLocks::lend_once(std::string agent, std::int64_t ttl_ms,
                                                               std::string actor) {
  const Problem taken{.code = Code::lock_timeout,
                      .detail = fmt::format("the lock of agent {} is lent to another client", agent),
                      .retry_after_s = 1};
  CO_TRY(co_await agents_.load(agent, false));
  if (agents_.find_or_add(agent).lent) co_return std::unexpected(taken);
  const std::uint64_t seq = commits_.last();
  CO_TRY(co_await commits_.wait_until_durable(seq));
  CO_TRY(co_await checkpointer_.write_until(agent, seq, 0));
  const auto turn = co_await agents_.take_turn(agent, Turn::checkpointing);
  Agent& there = agents_.find_or_add(agent);
  if (there.lent || !there.file || env_.stopping) co_return std::unexpected(taken);
  auto options = store_options(env_.config, env_.paths, agent);
  options.lock.timeout = {};
  auto [lock, evictions] = co_await runtime::run_on(there.strand, [options, file = there.file] {
    std::vector<lock::Eviction> evicted;
    auto held = lock::FileLock::acquire(options.path, options.lock, evicted);
    if (held && held->predecessor_may_wake()) file->history()->distrust();
    store::fault_point("lend.locked");
    return std::pair(std::move(held), std::move(evicted));
  });
  notices_.evicted(agent, evictions);
  if (!lock) co_return std::unexpected(std::move(lock.error()));
  if (env_.stopping) {
    co_await runtime::run_on(there.strand, [held = std::make_shared<lock::FileLock>(std::move(*lock))] {
      held->release();
      return true;
    });
    co_return fail(Code::draining, "the daemon is shutting down");
  }
  Lease lease{.id = commits_.context(actor, "api").ids->uuid(),
              .path = lock->path().native(),
              .actor = actor,
              .expires_at = store::unix_ms() + ttl_ms};
  const auto lent =
      std::make_shared<Lent>(env_.io, std::move(lease), std::make_shared<lock::FileLock>(std::move(*lock)));
  lent->set_time(ttl_ms);
  there.lent = true;
  lent_[agent] = lent;
  env_.background.run(watch(agent, lent), "lent_lock");
  co_return lent->lease;
}

// Ends the lease when its time is over. The timer is cancelled when it gets another time, or ends.
asio::awaitable<void> LentLocks::watch(std::string agent, std::shared_ptr<Lent> lent) {
  boost::system::error_code moved;
  while (!lent->ended && store::steady_ms() < lent->deadline)
    co_await lent->timer.async_wait(asio::redirect_error(asio::use_awaitable, moved));
  if (lent->ended) co_return;
  if (auto merged = co_await end(agent, lent, true); !merged)
    log::warn("lent_lock_not_merged",
              {{"agent", agent}, {"error", merged.error().detail}, {"next", "looking again when it is used"}});
  json::ObjectWriter data;
  data.string("path", lent->lease.path);
  data.string("id", lent->lease.id);
  data.string("holder", lent->lease.actor);
  if (auto told = co_await commits_.announce(journal::EventType::lock_expired, data.text(), "sessiond", agent);
      !told && !env_.stopping)
    log::warn("event_not_stored", {{"error", told.error().detail}});
}

asio::awaitable<Result<LentLocks::Lease>> LentLocks::renew(std::string agent, std::string id, std::int64_t ttl_ms) {
  const auto lent = find_lent(agent, id);
  if (!lent) co_return no_such_lease(agent);
  const bool held = co_await runtime::run_on(agents_.find_or_add(agent).strand, [lock = lent->lock] {
    lock->touch();
    return lock->held();
  });
  if (lent->ended) co_return no_such_lease(agent);
  if (!held) {
    CO_TRY(co_await end(agent, lent, true));
    co_return fail(Code::not_found, fmt::format("{} was taken away by a foreign program", lent->lease.path));
  }
  lent->lease.expires_at = store::unix_ms() + ttl_ms;
  lent->set_time(ttl_ms);
  co_return lent->lease;
}

asio::awaitable<Result<void>> LentLocks::give_back(std::string agent, std::string id) {
  const auto lent = find_lent(agent, id);
  if (!lent) co_return no_such_lease(agent);
  co_return co_await end(agent, lent, false);
}

// Releases the lock, then reads the file and merges what changed in it. What is written in between is merged with it:
// every checkpoint looks whether the file is as it was read. `writer_may_go_on`: the client does not know that it ends.
asio::awaitable<Result<void>> LentLocks::end(std::string agent, std::shared_ptr<Lent> lent, bool writer_may_go_on) {
  assert(!lent->ended);
  lent->ended = true;
  lent->timer.cancel();
  Agent& there = agents_.find_or_add(agent);
  co_await runtime::run_on(there.strand, [lock = lent->lock, file = there.file, writer_may_go_on] {
    if (file && (writer_may_go_on || !lock->held())) file->history()->distrust();
    lock->release();
    store::fault_point("lend.released");
    return true;
  });
  there.lent = false;
  lent_.erase(agent);
  if (there.checkpoint.dirty_since != 0) checkpointer_.wake();
  CO_TRY(co_await agents_.load(agent, false));  // a failed batch may have taken it out of memory
  co_return co_await agents_.reload_if_changed(agent);
}

asio::awaitable<void> LentLocks::stop() {
  while (!lent_.empty()) {
    const auto [agent, lent] = *lent_.begin();
    if (lent->ended) {  // by a request: it is gone in a moment
      asio::steady_timer pause(env_.io, std::chrono::milliseconds(2));
      co_await pause.async_wait(asio::use_awaitable);
    } else if (auto merged = co_await end(agent, lent, true); !merged) {
      log::warn("lent_lock_not_merged",
                {{"agent", agent}, {"error", merged.error().detail}, {"next", "the next start merges it"}});
    }
  }
}

}  // namespace sessiond::ledger
