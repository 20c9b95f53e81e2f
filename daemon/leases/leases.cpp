#include "daemon/leases/leases.hpp"

#include <algorithm>
#include <tuple>

#include "daemon/decide/run_steps.hpp"
#include "daemon/leases/take_up.hpp"
#include "daemon/ledger/book_files.hpp"
#include "daemon/runtime/log.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::leases {
namespace {

constexpr std::int64_t least_rest_ms = 10'000;  // of a lease after a restart, if it was as long
constexpr std::int64_t store_every_ms = 1'000;  // what a runner says
constexpr std::int64_t retry_ms = 1'000;        // when a run could not be ended

// Returns the id of the run that an event of a run, a step or a tool is about; "" for all others.
const std::string& run_in(const decide::Change& change) {
  static const std::string none;
  if (const auto* told = change.as<decide::RunTold>()) return told->run.id;
  if (const auto* inputs = change.as<decide::RunInputs>()) return inputs->run_id;
  if (const auto* told = change.as<decide::RunnerTold>()) return told->run_id;
  return none;
}

// Returns the runs of the session that an event is about. Null: it has none, or its agent is not in memory.
const decide::SessionRuns* runs_about(const ledger::LedgerParts& parts, const journal::Envelope& about) {
  const decide::AgentState* state = ledger::loaded_state(parts, about.agent, about.key);
  return state == nullptr ? nullptr : state->runs.find(about.key);
}

}  // namespace

Leases::Leases(ledger::Ledger& ledger, OnReady on_ready)
    : ledger_(ledger),
      on_ready_(std::move(on_ready)),
      clock_(ledger.parts().env.clock),
      background_(ledger.parts().env.io),
      deadlines_(
          ledger.parts().env.io, clock_, [this](const Id& id) { run_is_due(id); },
          [this](std::int64_t) { prolong_all(); }),
      idle_polls_(ledger.parts().env.io, clock_) {
  ledger_.set_pulse([this](const std::string& agent, const std::string& key, const decide::RunHold& hold) {
    return pulse(agent, key, hold);
  });
}

void Leases::start() {
  background_.run(take_up(ledger::all_in_memory(ledger_.parts().agents)), "take_up_runs");
  background_.run(deadlines_.run(), "leases");
}

asio::awaitable<void> Leases::take_up(std::set<std::string> recovered) {
  co_await take_up_open(ledger_,
                        {.what = "leases",
                         .recovered = std::move(recovered),
                         .may_be_open = may_have_runs(ledger_),
                         .take =
                             [this](const decide::AgentState& state) {
                               for (const auto& [key, runs] : state.runs.sessions())
                                 take_up_session(state.id(), key, runs);
                             }},
                        deadlines_.is_stopped());
  is_taken_up_ = true;
  taken_up_.release(UINT64_MAX);
}

asio::awaitable<std::set<Leases::Place>> Leases::places() {
  if (!is_taken_up_) co_await taken_up_.wait(1);
  std::set<Place> places;
  for (const auto& [place, kept] : kept_) places.insert(place);
  for (const auto& [of, queued] : queued_) places.insert(of.first);
  co_return places;
}

asio::awaitable<void> Leases::stop() {
  deadlines_.stop();
  co_await background_.wait_until_all_ended();
  std::vector<std::pair<Place, decide::RunHold>> runs;  // copied: storing changes the map
  for (const auto& [place, kept] : kept_)
    if (!kept.pulse.text.empty() || kept.pulse.said_end.waits()) runs.emplace_back(place, kept.hold);
  for (auto& [place, hold] : runs) co_await store_text(std::move(place), std::move(hold), true);
  ledger_.set_pulse({});
}

void Leases::take_up_session(const std::string& agent, const std::string& key, const decide::SessionRuns& runs) {
  const std::int64_t now = clock_.steady_ms();
  const Place place{agent, key};
  for (const decide::Run& run : runs.queued)
    if (!queued_.contains({place, run.id})) keep_queued(place, run.id, run);
  if (!runs.active) return;
  const decide::Run& run = *runs.active;
  if (const auto known = kept_.find(place); known != kept_.end() && known->second.hold.run_id == run.id) return;
  const std::int64_t rest = run.started_at + run.lease_ms - clock_.wall_ms();
  const std::int64_t lease = std::clamp(rest, std::min(run.lease_ms, least_rest_ms), run.lease_ms);
  Kept kept{.hold = {.run_id = run.id, .fence = runs.fence},
            .token = run.token,
            .lease_ms = run.lease_ms,
            .idle_ms = run.idle_timeout_ms};
  kept.pulse.said_end = policy::PieceRedactor::behind(runs.partial);
  kept.lease_until = now + lease;
  if (run.in_step && run.idle_timeout_ms != 0) kept.idle_until = now + run.idle_timeout_ms;
  if (run.status == decide::RunStatus::aborting) kept.grace_until = now + ledger_.rules().runs.abort_grace_ms;
  keep_active(place, std::move(kept));
}

void Leases::keep_queued(const Place& place, const std::string& run_id, const decide::RunTimes& times) {
  const std::int64_t now = clock_.steady_ms();
  const std::int64_t wall = clock_.wall_ms();
  // A clock that was set back must not make it wait longer than it was to wait at first.
  const std::int64_t wait =
      std::clamp<std::int64_t>(times.ready_at - wall, 0, std::max<std::int64_t>(times.ready_at - times.created_at, 0));
  const std::int64_t most = ledger_.rules().runs.queue_max_age_ms;
  const std::int64_t rest = ledger_.parts().commits.clock().rest_of(most, times.created_at, times.age_created_at);
  Queued queued{.ready = wait == 0 ? 0 : now + wait, .too_old = now + rest, .since = now + rest - most};
  const decide::AgentState* state = ledger::loaded_state(ledger_.parts(), place.first, place.second);
  const decide::SessionRuns* runs = state == nullptr ? nullptr : state->runs.find(place.second);
  if (runs != nullptr && runs->takeover) stand_still(queued);
  queued_[{place, run_id}] = queued;
  schedule({place, run_id}, queued);
  if (wait == 0) on_ready_(place.first, place.second);
}

// A person speaks in the session. Its runs wait for the hand-back, which emits run.queued for each of them.
void Leases::stand_still(Queued& queued) {
  queued.ready = 0;
  queued.too_old = runtime::never;
}

void Leases::keep_active(const Place& place, Kept kept) { schedule(place, kept_[place] = std::move(kept)); }

void Leases::forget_active(const Place& place) {
  kept_.erase(place);
  deadlines_.erase({place, ""});
}

void Leases::forget_queued(const Id& id) {
  queued_.erase(id);
  deadlines_.erase(id);
}

void Leases::see(const decide::Change& event) {
  using journal::EventType;
  const EventType type = event.envelope.type;
  const bool may_matter = type == EventType::message_appended || type == EventType::session_deleted ||
                          type == EventType::session_takeover || type == EventType::session_handback ||
                          (type >= EventType::run_queued && type <= EventType::step_finished);
  if (!may_matter || (type == EventType::message_appended && kept_.empty())) return;
  const Place place{event.envelope.agent, event.envelope.key};
  if (const auto* said = event.as<decide::MessageAppended>()) {  // what a runner says in an entry is not partial text
    const auto kept = kept_.find(place);
    if (kept != kept_.end() && !kept->second.pulse.text.empty() && said->said_by_run &&
        kept->second.pulse.since < event.envelope.seq)
      kept->second.pulse.text.clear();
    return;
  }
  if (type == EventType::session_handback) return on_ready_(place.first, place.second);
  if (type == EventType::session_takeover) {
    for (auto queued = queued_.lower_bound({place, ""}); queued != queued_.end() && queued->first.first == place;
         ++queued)
      stand_still(queued->second);
    return;
  }
  if (type == EventType::session_deleted) {
    forget_active(place);
    tell_that_is_idle(place);
    for (auto queued = queued_.lower_bound({place, ""}); queued != queued_.end() && queued->first.first == place;) {
      deadlines_.erase(queued->first);
      queued = queued_.erase(queued);
    }
    return;
  }
  const std::string& run_id = run_in(event);
  const std::int64_t now = clock_.steady_ms();
  const auto kept = kept_.find(place);
  const bool is_kept = kept != kept_.end() && kept->second.hold.run_id == run_id;
  switch (type) {
    case EventType::run_queued: {
      const decide::SessionRuns* runs = runs_about(ledger_.parts(), event.envelope);
      if (const decide::Run* queued = runs == nullptr ? nullptr : runs->find_queued(run_id))
        return keep_queued(place, run_id, *queued);
      if (const auto* told = event.as<decide::RunTold>())  // a later commit has changed it already
        return keep_queued(place, run_id, told->run);
      return;
    }
    case EventType::run_started: {
      forget_queued({place, run_id});
      const decide::SessionRuns* runs = runs_about(ledger_.parts(), event.envelope);
      if (runs == nullptr || !runs->active || runs->active->id != run_id) return;
      const decide::Run& run = *runs->active;
      return keep_active(place, {.hold = {.run_id = run_id, .fence = runs->fence},
                                 .token = run.token,
                                 .lease_ms = run.lease_ms,
                                 .idle_ms = run.idle_timeout_ms,
                                 .lease_until = now + run.lease_ms,
                                 .pulse = {.known = true}});
    }
    case EventType::run_finished: {
      if (const auto* told = event.as<decide::RunTold>())
        ++counted_.ended.at(static_cast<std::size_t>(told->run.status));
      forget_queued({place, run_id});
      if (is_kept) forget_active(place);
      tell_that_is_idle(place);
      return on_ready_(place.first, place.second);
    }
    case EventType::run_aborting:
      if (!is_kept) return;
      kept->second.grace_until = now + ledger_.rules().runs.abort_grace_ms;
      return schedule(place, kept->second);
    case EventType::step_started:
      if (!is_kept || kept->second.idle_ms == 0) return;
      kept->second.idle_until = now + kept->second.idle_ms;
      return schedule(place, kept->second);
    case EventType::step_finished:
      if (is_kept) kept->second.idle_until = 0;
      return;
    default:
      return;
  }
}

decide::RunPulse Leases::pulse(const std::string& agent, const std::string& key, const decide::RunHold& hold) const {
  const auto kept = kept_.find({agent, key});
  const bool holds =
      kept != kept_.end() && kept->second.hold.run_id == hold.run_id && kept->second.hold.fence == hold.fence;
  return holds ? kept->second.pending.value_or(kept->second.pulse) : decide::RunPulse{};
}

void Leases::set_pending(const std::string& agent, const std::string& key, const decide::RunHold& hold,
                         std::optional<decide::RunPulse> pulse) {
  const auto kept = kept_.find({agent, key});
  if (kept != kept_.end() && kept->second.hold == hold) kept->second.pending = std::move(pulse);
}

void Leases::renew(const std::string& agent, const std::string& key, const decide::RunHold& hold, const Call& call) {
  const auto found = kept_.find({agent, key});
  if (found == kept_.end() || found->second.hold.run_id != hold.run_id || found->second.hold.fence != hold.fence)
    return;
  Kept& kept = found->second;
  kept.pending.reset();
  const std::int64_t now = clock_.steady_ms();
  kept.lease_until = now + kept.lease_ms;
  if (kept.idle_until != 0 && call.speaks) kept.idle_until = now + kept.idle_ms;
  if (call.n != 0) {
    kept.pulse.calls = std::max(kept.pulse.calls, call.n);
    kept.pulse.known = true;
  }
  if (call.ends) std::tie(kept.pulse.said_end, kept.pulse.thought_end) = *call.ends;
  if (call.stored) {
    kept.pulse.text.clear();
    kept.store_at = 0;
  }
  const decide::AgentState* state = ledger::loaded_state(ledger_.parts(), agent, key);
  const decide::SessionRuns* runs = state == nullptr ? nullptr : state->runs.find(key);
  if (runs != nullptr && runs->text_seq > kept.pulse.since) kept.pulse.text.clear();  // it is being stored
  if (runs != nullptr) kept.pulse.since = runs->text_seq;
  if (call.said.empty()) return;
  const std::uint64_t most = ledger_.rules().runs.partial_bytes;
  if (kept.pulse.text.size() < most) kept.pulse.text += call.said;
  if (kept.store_at != 0) return;
  kept.store_at = now + store_every_ms;
  schedule(found->first, kept);
}

Leases::Counters Leases::counters() const {
  Counters out = counted_;
  out.active = kept_.size();
  out.queued = queued_.size();
  const std::int64_t now = clock_.steady_ms();
  for (const auto& [run_id, queued] : queued_)
    out.oldest_queued_ms = std::max(out.oldest_queued_ms, now - queued.since);
  return out;
}

std::optional<std::int64_t> Leases::lease_ends_at(const std::string& agent, const std::string& key) const {
  const auto kept = kept_.find({agent, key});
  if (kept == kept_.end()) return {};
  return clock_.wall_ms() + kept->second.lease_until - clock_.steady_ms();
}

bool Leases::is_debounced(const std::string& agent, const std::string& key, const std::string& run_id) const {
  const auto found = queued_.find({{agent, key}, run_id});
  return found != queued_.end() && found->second.ready > clock_.steady_ms();
}

// The daemon was stopped for a while, and its runners could not reach it.
void Leases::prolong_all() {
  const std::int64_t now = clock_.steady_ms();
  for (auto& [place, kept] : kept_)
    kept.lease_until = std::max(kept.lease_until, now + std::min(kept.lease_ms, least_rest_ms));
}

void Leases::schedule(const Place& place, const Kept& kept) {
  if (kept.ending) return;
  std::int64_t at = kept.lease_until;
  for (const std::int64_t other : {kept.grace_until, kept.idle_until, kept.store_at})
    if (other != 0) at = std::min(at, other);
  deadlines_.set({place, ""}, std::max(at, kept.again_at));
}

void Leases::schedule(const Id& id, const Queued& queued) {
  deadlines_.set(id, queued.ready != 0 ? std::min(queued.ready, queued.too_old) : queued.too_old);
}

void Leases::run_is_due(const Id& id) {
  if (id.second.empty()) return look_at_active(id.first, kept_.at(id.first));
  look_at_queued(id, queued_.at(id));
}

void Leases::look_at_active(const Place& place, Kept& kept) {
  if (kept.ending) return;
  const std::int64_t now = clock_.steady_ms();
  using Why = decide::EndRun::Why;
  const bool is_lost = kept.lease_until <= now;
  const bool is_aborted = kept.grace_until != 0;
  if (is_lost || (is_aborted && kept.grace_until <= now) || (kept.idle_until != 0 && kept.idle_until <= now)) {
    kept.ending = true;
    const Why why = is_lost ? Why::lease_lost : is_aborted ? Why::abort_grace : Why::idle_timeout;
    return background_.run(end(place, kept.hold, why), "leases");
  }
  const bool stores = kept.store_at != 0 && kept.store_at <= now;
  if (stores) kept.store_at = now + store_every_ms;
  schedule(place, kept);
  if (stores) background_.run(store_text(place, kept.hold), "leases");
}

void Leases::look_at_queued(const Id& id, Queued& queued) {
  const auto& [place, run_id] = id;
  const std::int64_t now = clock_.steady_ms();
  const bool is_ready = queued.ready != 0 && queued.ready <= now;
  const bool is_too_old = queued.too_old <= now;
  if (is_ready) queued.ready = 0;
  if (is_too_old) queued.too_old = now + retry_ms;
  schedule(id, queued);
  if (is_too_old) background_.run(end(place, {.run_id = run_id}, decide::EndRun::Why::too_old), "leases");
  if (is_ready) on_ready_(place.first, place.second);
}

asio::awaitable<void> Leases::wait_until_idle(Place place, std::int64_t most_ms, std::function<bool()> gone) {
  runtime::LongPoll<Place>::Place waiting(idle_polls_, place, clock_.steady_ms() + most_ms, std::move(gone));
  do {
    const decide::AgentState* state = ledger::loaded_state(ledger_.parts(), place.first, place.second);
    const decide::SessionRuns* runs = state == nullptr ? nullptr : state->runs.find(place.second);
    if (runs == nullptr || !runs->active) co_return;
  } while (co_await waiting.wait() == runtime::Woken::news);
}

void Leases::tell_that_is_idle(const Place& place) {
  idle_polls_.wake([&place](const Place& of) { return of == place; });
}

std::string Leases::token_of(const Place& place) const {
  const auto kept = kept_.find(place);
  return kept == kept_.end() ? "" : kept->second.token;
}

asio::awaitable<void> Leases::end(Place place, decide::RunHold hold, decide::EndRun::Why why) {
  const auto& [agent, key] = place;
  const auto turn = co_await turns_.take(agent, hold.run_id, token_of(place));
  decide::EndRun command{.target = {.key = key}, .hold = hold, .why = why};
  ledger::Requester by{.actor = "sessiond"};
  by.in_memory = ledger_.parts().memory.holding(agent, key) != nullptr;
  bool renewed = false;  // while the commit waited
  const auto decide = [&](const decide::AgentState& state, const decide::Context& context,
                          const decide::FetchedLines& lines) -> Result<decide::Decision> {
    const auto now = kept_.find(place);
    renewed = why == decide::EndRun::Why::lease_lost && now != kept_.end() && now->second.hold.run_id == hold.run_id &&
              now->second.lease_until > clock_.steady_ms();
    decide::Decision nothing;
    nothing.status = 204;
    if (renewed) return nothing;
    return decide::decide(state, command, context, lines);
  };
  const auto ended = co_await ledger_.commit(agent, std::move(by), decide);
  if (const auto now = kept_.find(place); renewed && now != kept_.end()) {
    now->second.ending = false;
    schedule(place, now->second);
    co_return;
  }
  const auto kept = kept_.find(place);
  const bool is_kept = kept != kept_.end() && kept->second.hold.run_id == hold.run_id;
  if (ended) {
    log::info("run_ended", {{"agent", agent}, {"key", key}, {"run", hold.run_id}});
    if (is_kept) forget_active(place);
    if (why == decide::EndRun::Why::lease_lost) ++counted_.lost;
    if (why == decide::EndRun::Why::too_old) forget_queued({place, hold.run_id});
    co_return;
  }
  log::warn("run_not_ended", {{"agent", agent},
                              {"key", key},
                              {"run", hold.run_id},
                              {"error", ended.error().detail},
                              {"next", "trying again"}});
  if (!is_kept) co_return;
  kept->second.ending = false;
  kept->second.again_at = clock_.steady_ms() + retry_ms;
  schedule(place, kept->second);
}

// Stores what the runner has said, as a call of the runner that says nothing more.
asio::awaitable<void> Leases::store_text(Place place, decide::RunHold hold, bool with_held) {
  const auto& [agent, key] = place;
  const auto turn = co_await turns_.take(agent, hold.run_id, token_of(place));
  const auto kept = kept_.find(place);
  if (kept == kept_.end() || kept->second.hold.run_id != hold.run_id) co_return;
  if (kept->second.pulse.text.empty() && !(with_held && kept->second.pulse.said_end.waits())) co_return;
  const std::string token = kept->second.token;
  std::size_t taken = 0;
  const auto decide = [this, &place, &hold, &taken, with_held](const decide::AgentState& state,
                                                               const decide::Context& context,
                                                               const decide::FetchedLines& lines) {
    decide::RunEvents command{.target = {.key = place.second}, .hold = hold};
    command.pulse = pulse(place.first, place.second, hold);
    command.store_text = true;
    taken = command.pulse.text.size();
    if (with_held) command.pulse.text += command.pulse.said_end.rest();
    return decide::decide(state, command, context, lines);
  };
  ledger::Requester by{.actor = token};
  by.in_memory = ledger_.parts().memory.holding(agent, key) != nullptr;
  const auto done = co_await ledger_.commit(agent, std::move(by), decide);
  const auto now = kept_.find(place);
  if (!done || now == kept_.end() || now->second.hold.run_id != hold.run_id) co_return;
  decide::RunPulse& pulse = now->second.pulse;
  pulse.text.erase(0, std::min(taken, pulse.text.size()));
  if (with_held) pulse.said_end.tell_rest();
  const decide::AgentState* state = ledger::loaded_state(ledger_.parts(), agent, key);
  if (const decide::SessionRuns* runs = state == nullptr ? nullptr : state->runs.find(key))
    pulse.since = runs->text_seq;
  if (pulse.text.empty()) now->second.store_at = 0;
}

}  // namespace sessiond::leases
