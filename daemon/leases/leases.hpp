// Keeps the leases of active runs, and ends the runs whose time is over: the lease, the silence of the model, the grace
// of an abort, the age of a queued run (policy/runs/README.md). What a runner said and that is not stored yet is here,
// too, and is stored once a second.
//
// Times run on the monotonic clock. After a restart a lease has the rest that is known of it, and at least
// min(leaseMs, 10 s), since renewals are not stored. The same holds when the daemon itself was stopped for a while.
// Thread: the loop.
#pragma once

#include <array>
#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/decide/events.hpp"
#include "daemon/decide/run_commands.hpp"
#include "daemon/leases/turns.hpp"
#include "daemon/ledger/ledger.hpp"
#include "daemon/runtime/deadlines.hpp"
#include "daemon/runtime/long_poll.hpp"
#include "daemon/runtime/waiters.hpp"

namespace sessiond::leases {

class Leases {
 public:
  using Place = std::pair<std::string, std::string>;  // agent and key
  // Called when a session's first queued run may be handed out: agent and key.
  using OnReady = std::function<void(const std::string& agent, const std::string& key)>;
  Leases(ledger::Ledger& ledger, OnReady on_ready);

  void start();                           // takes up the runs of before
  asio::awaitable<void> stop();           // ends nothing: what runners said is stored
  void see(const decide::Change& event);  // that became durable

  // A call about a run takes its turn before it is decided (turns.hpp).
  asio::awaitable<std::shared_ptr<void>> turn(std::string agent, std::string run_id, std::string token) {
    return turns_.take(std::move(agent), std::move(run_id), std::move(token));
  }
  // Takes up the runs of a session, if its active run has not been taken up since the daemon started: a call of its
  // runner may come before.
  void take_up(const std::string& agent, const std::string& key, const decide::SessionRuns& runs) {
    if (!kept_.contains({agent, key})) take_up_session(agent, key, runs);
  }
  // Returns what is kept in memory of the active run of a session, if `hold` is its lease.
  decide::RunPulse pulse(const std::string& agent, const std::string& key, const decide::RunHold& hold) const;
  // A runner has called: its lease begins anew. `said`: text that its call brought and that was not stored.
  struct Call {
    std::uint64_t n = 0;  // 0: the call has no number
    std::string said{};
    bool stored = false;  // all that was kept is stored now
    bool speaks = false;  // the model is at work: for the idle timeout
    // Replaces the ends of what was said and thought (RunPulse); nothing: they stay.
    std::optional<std::pair<policy::PieceRedactor, policy::PieceRedactor>> ends{};
  };
  void renew(const std::string& agent, const std::string& key, const decide::RunHold& hold, const Call& call);
  // A call was decided, and waits until that is durable: what it leaves behind counts from now on. Nothing: it was
  // refused after all. renew() ends it, too.
  void set_pending(const std::string& agent, const std::string& key, const decide::RunHold& hold,
                   std::optional<decide::RunPulse> pulse);
  // For /metrics. Counts begin with the daemon.
  struct Counters {
    std::size_t active = 0, queued = 0;
    std::int64_t oldest_queued_ms = 0;     // how long it has waited
    std::array<std::uint64_t, 8> ended{};  // by decide::RunStatus
    std::uint64_t lost = 0;                // leases that ended before their run
  };
  Counters counters() const;
  // When the lease of the active run ends, in ms since the epoch; nothing: there is none.
  std::optional<std::int64_t> lease_ends_at(const std::string& agent, const std::string& key) const;
  // Returns when a session has no active run, at the latest after this time. Ends early when drain() is called, or when
  // the client has gone.
  asio::awaitable<void> wait_until_idle(Place place, std::int64_t most_ms, std::function<bool()> gone);
  void drain() { idle_polls_.drain(); }
  // The sessions that have active or queued runs. Waits until those of before the start are known.
  asio::awaitable<std::set<Place>> places();
  // Tells whether a session's queued run is still to wait for more input.
  bool is_debounced(const std::string& agent, const std::string& key, const std::string& run_id) const;

 private:
  struct Kept {
    decide::RunHold hold{};
    std::string token{};
    std::int64_t lease_ms = 0, idle_ms = 0;
    std::int64_t lease_until = 0;  // steady ms, as all below
    std::int64_t idle_until = 0;   // 0: the model is not at work
    std::int64_t grace_until = 0;  // 0: nobody has stopped it
    std::int64_t store_at = 0;     // 0: all that was said is stored
    decide::RunPulse pulse{};
    std::optional<decide::RunPulse> pending{};  // what it will be when a call that was decided is durable
    std::int64_t again_at = 0;                  // it could not be ended: not before this time. 0: it may be
    bool ending = false;
  };
  struct Queued {
    std::int64_t ready = 0;  // steady ms; 0: it is
    std::int64_t too_old = 0;
    std::int64_t since = 0;
  };
  using Id = std::pair<Place, std::string>;  // of a queued run: with its id; of the active run: without one

  asio::awaitable<void> take_up(std::set<std::string> recovered);
  void take_up_session(const std::string& agent, const std::string& key, const decide::SessionRuns& runs);
  void keep_queued(const Place& place, const std::string& run_id, const decide::RunTimes& times);
  static void stand_still(Queued& queued);
  void keep_active(const Place& place, Kept kept);
  void forget_active(const Place& place);
  void forget_queued(const Id& id);
  void schedule(const Place& place, const Kept& kept);
  void schedule(const Id& id, const Queued& queued);
  void run_is_due(const Id& id);
  void look_at_active(const Place& place, Kept& kept);
  void look_at_queued(const Id& id, Queued& queued);
  void prolong_all();
  void tell_that_is_idle(const Place& place);
  std::string token_of(const Place& place) const;  // of the active run; empty: there is none
  asio::awaitable<void> end(Place place, decide::RunHold hold, decide::EndRun::Why why);
  asio::awaitable<void> store_text(Place place, decide::RunHold hold, bool with_held = false);

  ledger::Ledger& ledger_;
  OnReady on_ready_;
  const runtime::Clock& clock_;
  ledger::Background background_;
  Turns turns_{};
  runtime::Waiters taken_up_{};
  bool is_taken_up_ = false;
  std::map<Place, Kept> kept_{};
  std::map<Id, Queued> queued_{};
  // When each of these is to be looked at. A time of it that was put off since stays here, and is set then: a call of a
  // runner costs no deadline.
  runtime::Deadlines<Id> deadlines_;
  runtime::LongPoll<Place> idle_polls_;
  Counters counted_{};
};

}  // namespace sessiond::leases
