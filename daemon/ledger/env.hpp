// The surroundings of a ledger's parts, and whether it is being shut down. Outlives the parts.
// Thread: the loop, except `config` and `paths`: the configuration of the start, which never changes and may be read
// anywhere. What SIGHUP changes is in `rules`.
#pragma once

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "config/config.hpp"
#include "daemon/decide/adoptions.hpp"
#include "daemon/decide/events.hpp"
#include "daemon/decide/hooks.hpp"
#include "daemon/decide/lineage.hpp"
#include "daemon/decide/rules.hpp"
#include "daemon/ledger/background.hpp"
#include "daemon/ledger/paths.hpp"
#include "daemon/runtime/clock.hpp"
#include "daemon/runtime/one_by_one.hpp"
#include "daemon/runtime/one_thread.hpp"
#include "store/clock.hpp"

namespace sessiond::ledger {

inline constexpr std::int64_t transcript_lock_timeout_ms = 60'000;
// Bytes of a transcript that one call may index or parse beside a long pass (LedgerEnv::long_passes).
inline constexpr std::uint64_t short_pass = 1 << 20;

struct LedgerEnv {
  LedgerEnv(asio::io_context& loop, asio::thread_pool& threads, const config::Config& configured,
            decide::Rules decided_by, std::string journal_secret)
      : io(loop),
        disk(threads),
        config(configured),
        rules(std::move(decided_by)),
        paths(configured.state_dir, configured.store.path_template),
        secret(std::move(journal_secret)),
        lineage(secret),
        background(loop) {}
  LedgerEnv(const LedgerEnv&) = delete;
  LedgerEnv& operator=(const LedgerEnv&) = delete;

  // After how many ms a lock that a foreign program holds is asked for again; with jitter, so that two programs that
  // want the same lock do not collide again and again.
  std::int64_t lock_poll_ms() {
    const std::int64_t interval = std::max<std::int64_t>(config.store.lock.poll_interval_ms, 2);
    return std::uniform_int_distribution<std::int64_t>(interval / 2, interval + interval / 2)(jitter);
  }
  // How old the view of an agent may get before its files are looked at again.
  std::int64_t ttl_ms() const {
    constexpr std::int64_t usual = 45'000;  // also where every read looks: for agents that are not read
    return config.store.cache_ttl_ms == 0 ? usual : config.store.cache_ttl_ms;
  }

  asio::io_context& io;
  asio::thread_pool& disk;  // runs whatever may block
  runtime::Clock clock{};
  const config::Config config;
  decide::Rules rules;
  // The deliveries that are kept for bridges, by filter; leases::Adopter changes it.
  const std::unique_ptr<decide::Adoptions> adoptions = std::make_unique<decide::Adoptions>();
  // The handlers that clients have made; leases::Hooks changes it.
  const std::unique_ptr<runs::HookList> hooks = std::make_unique<runs::HookList>();
  const Paths paths;
  const std::string secret;  // journal/cursor.key: signs whatever the daemon has to recognize after a restart
  const decide::Lineage lineage;
  Background background;
  // Calls that parse much of a transcript: one at a time, so that the other disk threads serve what is short.
  mutable runtime::OneByOne long_passes{};
  std::minstd_rand jitter{std::random_device{}()};
  const std::int64_t started = store::unix_ms();
  // Transcripts that an earlier run staged and that the journal names beyond CHECKPOINT, below the state directory. Set
  // before the first request.
  std::set<std::string, std::less<>> staged_before{};
  // From here on no request waits for a foreign lock or for room in the journal.
  bool draining = false;
  // From here on nothing is committed.
  bool stopping = false;
  // Called with events that have no seq: open streams get them, and nothing keeps them.
  std::function<void(std::vector<decide::Change>)> on_passing_events{};
  // Returns the part of an active run that is in memory only. leases::Leases sets it. Empty: there is none.
  std::function<decide::RunPulse(const std::string& agent, const std::string& key, const decide::RunHold& hold)>
      pulse_of{};
  runtime::OneThread loop{};                  // asserted by the parts
  std::map<std::string, int> lock_waiters{};  // requests that wait for a foreign lock, by the file that it locks
};

// Counts a request that waits for a foreign lock, while it lives.
class LockWaiter {
 public:
  LockWaiter(std::map<std::string, int>& waiters, std::string target) : waiters_(waiters), target_(std::move(target)) {
    ++waiters_[target_];
  }
  LockWaiter(const LockWaiter&) = delete;
  LockWaiter& operator=(const LockWaiter&) = delete;
  ~LockWaiter() {
    if (--waiters_[target_] == 0) waiters_.erase(target_);
  }

 private:
  std::map<std::string, int>& waiters_;
  std::string target_;
};

}  // namespace sessiond::ledger
