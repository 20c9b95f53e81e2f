#include "daemon/ledger/ledger.hpp"

#include <fmt/format.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>

#include "daemon/ledger/fetch.hpp"
#include "daemon/runtime/log.hpp"
#include "store/files.hpp"
#include "store/names.hpp"
#include "store/try.hpp"

namespace sessiond::ledger {
namespace {

constexpr int max_fetches = 64;  // facts one decision may ask for
constexpr int most_looks = 8;    // at a transcript that a foreign program goes on writing to
// A message that is given a name waits for one that is just coming in under it.
constexpr std::chrono::milliseconds echo_poll{2};
constexpr std::int64_t echo_timeout_ms = 10'000;
constexpr std::int64_t turn_patience_ms = 200;  // for a transcript's lock, of a commit in a turn of its agent

// Answers for a durable commit that cannot be written into a file that its reply waits for: neither stored nor refused.
Problem not_in_file(Problem why, std::string_view file) {
  if (why.code == Code::lock_timeout) return why;
  why.detail = fmt::format("it is in the journal, and not yet in {}: {}", file, why.detail);
  why.code = Code::outcome_unknown;
  why.retry_after_s = 1;
  return why;
}

// Says whether the outcome tells where a transcript ends. Of the refusals only these do.
bool tells_of_end(const Result<decide::Decision>& decided) {
  return decided || decided.error().code == Code::precondition_failed ||
         decided.error().code == Code::entry_id_conflict;
}

Reply replay(const answers::Answer& answer) {
  return {.status = answer.status,
          .body = answer.body,
          .etag = json::string_at(answer.headers, "etag").value_or(""),
          .location = json::string_at(answer.headers, "location").value_or(""),
          .replayed = true};
}

// Ends a commit that was answered before it was durable. The key is in flight until the answer is kept, and the
// transcript is held until the lines are in it. A failure is reported by the parts that it happens in.
asio::awaitable<void> finish(LedgerParts& parts, std::uint64_t seq, std::string agent,
                             std::vector<decide::TranscriptUpdate> transcript_updates, std::shared_ptr<void> key,
                             std::shared_ptr<TranscriptHold> hold) {
  if (auto fine = co_await parts.commits.wait_until_durable(seq); !fine) co_return;
  key.reset();
  if (!hold) co_return;
  for (const decide::TranscriptUpdate& update : transcript_updates) {
    if (store::is_beside(update.file)) continue;
    if (auto written = co_await parts.flusher.wait_until_written(agent, update.file); !written) co_return;
  }
  co_await parts.locks.release(std::move(hold));
}

// Lists the scopes under which an answer is kept. A session that exists stands by its key, however the request names
// it; if it is named by its id, also by that, since a reset takes the id from it.
asio::awaitable<std::vector<answers::Digest>> scopes_of(LedgerParts& parts, const std::string& agent,
                                                        const IdempotencyScope& scope) {
  std::vector<answers::Digest> scopes{scope.of(scope.session)};
  if (scope.session.empty() || !co_await parts.agents.load(agent, false)) co_return scopes;
  const decide::AgentState* state = parts.agents.find_or_add(agent).state.get();
  const decide::Session* session = state == nullptr ? nullptr : state->find(scope.session);
  if (session == nullptr || session->key() == scope.session) co_return scopes;
  if (state->find_key(scope.session) != nullptr) scopes.clear();
  scopes.insert(scopes.begin(), scope.of(session->key()));
  co_return scopes;
}

// The answer to a message that came before, or that the agent has sent.
Reply duplicate(std::string_view body, bool own) {
  json::Edit told;
  if (!own) told.put("duplicate", "true");
  return {.status = 200, .body = json::apply(body, told)};
}

// Says under what the answer to the message of a request is kept.
void keep_message(KeptUnder& under, const MessageName& wanted, const KnownMessage& known) {
  under.message = known.scopes;
  under.message_headers = known.headers;
  under.first_message = known.first;
  under.is_edit = wanted.is_edit;
}

// Lets a decision know what was answered when its message came first.
Decide deciding_again(Decide decide, std::string told) {
  return [decide = std::move(decide), told = std::move(told)](
             const decide::AgentState& state, const decide::Context& context, const decide::FetchedLines& lines) {
    decide::Context again = context;
    again.told_before = &told;
    return decide(state, again, lines);
  };
}

// Finds the answer that is kept under an Idempotency-Key, of a durable session or an ephemeral one.
std::optional<answers::Answer> kept_answer(const LedgerParts& parts, const answers::Digest& scope) {
  std::optional<answers::Answer> known;
  if (const answers::Answer* in_memory = parts.memory.find_answer(scope))
    known = *in_memory;
  else
    known = parts.commits.answers().find(scope, parts.commits.clock().now());
  return known;
}

Result<void> check_same(const answers::Answer& known, const answers::Digest& request) {
  if (known.request == request) return {};
  return fail(Code::idempotency_key_reused, "this Idempotency-Key was used with another body, query or If-Match");
}

// Tells whether a decision makes a session that an agent's other state has: the durable or the ephemeral one.
bool makes_one_of(const decide::AgentState& state, const decide::Decision& decision) {
  return std::ranges::any_of(decision.events, [&state](const journal::Event& event) {
    return event.envelope.type == journal::EventType::session_created &&
           (state.find_key(event.envelope.key) != nullptr ||
            state.find_session_id(event.envelope.session_id) != nullptr);
  });
}

// Tells whether a session that is made would take the id of an archive, or of a transcript that has no session.
bool takes_known_id(const decide::AgentState& state, const decide::Decision& decision) {
  return std::ranges::any_of(decision.events, [&state](const journal::Event& event) {
    const std::string& id = event.envelope.session_id;
    return event.envelope.type == journal::EventType::session_created &&
           (state.archives.was_found(id) || !state.archives.of_id(id).empty());
  });
}

// Does not tell whether that one is durable: the token may not see it.
std::unexpected<Problem> is_there_already() {
  return fail(Code::session_exists, "a session with this key or id is there already");
}

std::unexpected<Problem> still_running() {
  return std::unexpected(Problem{.code = Code::idempotency_in_flight,
                                 .detail = "a request with this Idempotency-Key is still running",
                                 .retry_after_s = 1});
}

std::unexpected<Problem> is_coming_in() {
  return std::unexpected(Problem{.code = Code::session_busy,
                                 .detail = "a message with this platformMessageId is just coming in; try again",
                                 .retry_after_s = 1});
}

asio::awaitable<Result<Reply>> commit_in_memory(LedgerParts& parts, std::string agent, Requester intent,
                                                Decide decide) {
  MemorySessions::Facts facts;
  for (int fetches = 0;;) {
    if (parts.env.stopping) co_return fail(Code::draining, "the daemon is shutting down");
    CO_TRY(co_await parts.agents.load(agent, true));
    const decide::AgentState* durable = parts.agents.find_or_add(agent).state.get();
    if (durable == nullptr) continue;
    // No wait from here on, unless the decision needs a fact: then all begins again.
    KeptUnder under{.request = intent.request};
    if (intent.scope) {
      const decide::AgentState* held = parts.memory.holding(agent, intent.scope->session);
      under.scopes = {
          intent.scope->of(held == nullptr ? intent.scope->session : held->find(intent.scope->session)->key())};
      if (const auto known = kept_answer(parts, under.scopes.front())) {
        CO_TRY(check_same(*known, intent.request));
        co_return replay(*known);
      }
    }
    std::optional<std::string> told_before;
    InFlight::Table nothing;  // this is decided and applied without a wait
    InFlight in_flight(nothing);
    if (intent.message) {
      CO_TRY(const KnownMessage known, known_message(parts, *intent.message, in_flight));
      if (known.answer && !known.is_open && !intent.message->is_edit)
        co_return duplicate(known.answer->body, known.own);
      if (known.is_open) told_before = known.answer->body;
      keep_message(under, *intent.message, known);
    }
    const auto with_early = [&, again = told_before ? deciding_again(decide, *told_before) : decide](
                                const decide::AgentState& state, const decide::Context& context,
                                const decide::FetchedLines& lines) {
      decide::Context now = context;
      now.early = &durable->early;
      now.policies = &durable->policies;
      return again(state, now, lines);
    };
    CO_TRY(auto decision, parts.memory.decide(agent, intent.actor, with_early, facts));
    if (decision.need) {
      if (++fetches == max_fetches) co_return fail(Code::session_busy, "the transcript keeps changing; try again");
      CO_TRY(co_await parts.memory.fetch(agent, *decision.need, facts));
      continue;
    }
    if (makes_one_of(*durable, decision) || takes_known_id(*durable, decision)) co_return is_there_already();
    if (json::kind(decision.body) == json::Kind::object && !json::find(decision.body, "durable")) {
      decision.body.pop_back();
      decision.body += R"(,"durable":false})";
    }
    for (const std::string& id : decision.early_taken) parts.agents.find_or_add(agent).state->early.forget(id);
    keep_sent(parts, decision, intent.actor, under, in_flight);
    for (const decide::Change& event : decision.events)
      parts.agents.find_or_add(agent).state->policies.apply_passing(event);
    parts.memory.apply(agent, decision, answers_of(under, decision, parts.commits.clock()));
    if (told_before && !intent.message->is_edit) co_return duplicate(decision.body, false);
    co_return Reply{.status = decision.status,
                    .body = std::move(decision.body),
                    .etag = std::move(decision.etag),
                    .location = std::move(decision.location)};
  }
}

}  // namespace

asio::awaitable<Result<Reply>> Ledger::commit(std::string agent, Requester intent, Decide decide, bool create) {
  if (intent.in_memory)
    co_return co_await commit_in_memory(parts_, std::move(agent), std::move(intent), std::move(decide));
  KeptUnder under{.request = intent.request};
  std::optional<std::string> told_before;  // when the message of the request came first
  auto in_flight = std::make_shared<InFlight>(in_flight_);
  if (intent.scope) {
    under.scopes = co_await scopes_of(parts_, agent, *intent.scope);
    // Only the agent's state says whether an answer is of a purged session. If it cannot be loaded, the answer stands.
    if (kept_answer(parts_, under.scopes.front())) static_cast<void>(co_await parts_.agents.load(agent, create));
    // No wait from here on, until the key is in flight.
    if (in_flight->has(under.scopes.front())) co_return still_running();
    const auto known = kept_answer(parts_, under.scopes.front());
    if (known && !is_of_purged(parts_, agent, *known)) {
      CO_TRY(check_same(*known, intent.request));
      if (parts_.env.rules.shared) {  // it may have been answered lock_timeout: durable, but not in the files
        CO_TRY(co_await parts_.flusher.wait_until_written(agent));
      }
      co_return replay(*known);
    }
    in_flight->add(under.scopes.front());
  }
  if (intent.message) {
    if (!parts_.agents.find_or_add(agent).state) static_cast<void>(co_await parts_.agents.load(agent, create));
    CO_TRY(const KnownMessage known, known_message(parts_, *intent.message, *in_flight));
    if (known.is_open) {
      told_before = known.answer->body;
      decide = deciding_again(std::move(decide), *told_before);
    } else if (known.answer && !intent.message->is_edit) {
      if (parts_.env.rules.shared) CO_TRY(co_await parts_.flusher.wait_until_written(agent));
      Reply reply = duplicate(known.answer->body, known.own);
      decide::Decision again;
      again.body = reply.body;
      for (const answers::Answer& answer : answers_of(under, again, parts_.commits.clock()))
        parts_.commits.answers().put(answer);
      co_return reply;
    }
    keep_message(under, *intent.message, known);
  }

  decide::FetchedLines lines;
  decide::FetchedIds ids;
  decide::FetchedKept kept;
  decide::Decision decision;
  std::uint64_t last = 0;
  bool committed = false;
  std::shared_ptr<TranscriptHold> hold;
  bool has_looked = false;   // at what foreign programs wrote to transcripts that become archives
  bool is_unlocked = false;  // the transcript's lock could not be taken, and is not waited for
  const std::int64_t echo_deadline = store::steady_ms() + echo_timeout_ms;
  for (int fetches = 0, looks = 0;;) {
    if (parts_.env.stopping) co_return fail(Code::draining, "the daemon is shutting down");
    if (parts_.commits.failed()) co_return parts_.commits.failure();
    Agent& there = parts_.agents.find_or_add(agent);
    there.touched = store::steady_ms();
    if (intent.in_turn) {
      if (!there.state) co_return fail(Code::degraded, fmt::format("agent {} is not in memory", agent));
    } else if (!there.state || there.turn == Turn::loading) {
      CO_TRY(co_await parts_.agents.load(agent, create));
      continue;  // the state may have changed meanwhile
    } else if (!there.degraded.empty()) {
      CO_TRY(co_await parts_.agents.reload_if_changed(agent));
      if (parts_.agents.find_or_add(agent).degraded.empty()) continue;
      co_return std::unexpected(degraded_problem(agent, parts_.agents.find_or_add(agent).degraded));
    } else if (Backlog& backlog = parts_.checkpointer.backlog(); !backlog.has_room()) {
      hold.reset();  // no transcript lock is held during the wait
      parts_.checkpointer.wake();
      CO_TRY(co_await backlog.wait_for_room());
      continue;
    } else {
      CO_TRY(backlog.check(there));
    }
    decide::AgentState& state = *there.state;
    std::string rests_on;
    decide::Context now = parts_.commits.context(intent.actor, intent.source);
    now.rests_on = &rests_on;
    if (parts_.env.rules.shared)
      now.sessions_dir = [this, &agent] {
        return (parts_.env.paths.root() / parts_.env.paths.sessions_dir(agent)).native();
      };
    now.on_disk = &ids;
    now.kept = &kept;
    now.sdk_id_elsewhere = [this, &agent](std::string_view id) { return parts_.sdk_sessions.is_elsewhere(id, agent); };
    now.find_echo = [this](const std::string& name, std::string_view key, std::uint64_t after) {
      return find_echo(parts_, name, key, after);
    };
    now.is_coming_in = [this](const std::string& name) { return in_flight_.contains(name); };
    auto decided = decide(state, now, lines);
    if (!rests_on.empty() && tells_of_end(decided)) {
      if (parts_.env.rules.shared && !is_unlocked && (!hold || hold->file != rests_on)) {
        hold = parts_.locks.join(agent, rests_on);
        if (!hold && !intent.in_turn) {
          CO_TRY(hold, co_await parts_.locks.take(agent, rests_on));
          continue;
        }
        if (!hold) {  // readers of the agent wait for the turn: the lines go into the file when the lock is free
          auto taken = co_await parts_.locks.take(agent, rests_on, turn_patience_ms);
          is_unlocked = !taken;
          if (taken) hold = *std::move(taken);
          continue;
        }
      }
      // A foreign program that takes no lock may go on writing for ever. When its line takes the place of ours,
      // transcript.renumbered tells.
      if (!parts_.locks.ends_as_known(state, rests_on) && ++looks <= most_looks) {
        CO_TRY(co_await parts_.follower.publish(agent, rests_on));
        continue;
      }
    }
    if (!decided) {
      // The refusal shows the state, which must be durable first; that of an SDK session id, the state of all agents.
      const bool of_all = decided.error().code == Code::sdk_session_taken;
      CO_TRY(co_await parts_.commits.wait_until_durable(of_all ? parts_.commits.last() : state.last_seq));
      co_return std::unexpected(std::move(decided.error()));
    }
    decision = std::move(*decided);
    if (!decision.need && are_coming_in(decision, *in_flight)) {
      hold.reset();  // what comes in may need the transcript's lock
      if (store::steady_ms() >= echo_deadline) co_return is_coming_in();
      asio::steady_timer pause(parts_.env.io, echo_poll);
      co_await pause.async_wait(asio::as_tuple(asio::use_awaitable));
      continue;
    }
    if (!decision.need && !decision.ending.empty() && !std::exchange(has_looked, true)) {
      for (const std::string& file : decision.ending)  // what cannot be read now is told when it can be
        static_cast<void>(co_await parts_.follower.publish(agent, file));
      continue;
    }
    if (!decision.need) {
      CO_TRY(parts_.flusher.check_usable(agent, decision));
      if (const decide::AgentState* memory = parts_.memory.of(agent); memory && makes_one_of(*memory, decision))
        co_return is_there_already();
      committed = !decision.events.empty();
      keep_sent(parts_, decision, intent.actor, under, *in_flight);
      last = parts_.agents.stage(state, decision, answers_of(under, decision, parts_.commits.clock()));
      break;
    }
    if (++fetches == max_fetches) co_return fail(Code::session_busy, "the transcript keeps changing; try again");
    CO_TRY(co_await fetch(parts_, agent, *decision.need, lines, ids, kept));
  }

  // A commit without events journals nothing: its answer is kept as soon as the state is durable.
  std::vector<answers::Answer> unstored;
  if (!committed) unstored = answers_of(under, decision, parts_.commits.clock());
  const bool is_told_again = told_before && !intent.message->is_edit;
  Reply reply = is_told_again ? duplicate(decision.body, false)
                              : Reply{.status = decision.status,
                                      .body = std::move(decision.body),
                                      .etag = std::move(decision.etag),
                                      .location = std::move(decision.location)};
  if (intent.respond_async && committed) {
    reply.status = 202;
    parts_.env.background.run(
        finish(parts_, last, agent, std::move(decision.transcript_updates), std::move(in_flight), std::move(hold)),
        "finish");
    co_return reply;
  }
  CO_TRY(co_await parts_.commits.wait_until_durable(last));
  if (!committed) {
    for (const answers::Answer& answer : unstored) parts_.commits.answers().put(answer);
    co_return reply;
  }
  if (parts_.env.rules.shared && !is_unlocked) {
    for (const decide::TranscriptUpdate& update : decision.transcript_updates) {
      if (store::is_beside(update.file)) continue;  // foreign programs write none
      if (auto written = co_await parts_.flusher.wait_until_written(agent, update.file); !written)
        co_return std::unexpected(not_in_file(std::move(written.error()), "its transcript"));
    }
  }
  if (hold) co_await parts_.locks.release(std::move(hold));
  if (intent.in_turn) co_return reply;
  if (parts_.env.config.store.write_through || (parts_.env.rules.shared && decision.through_checkpoint)) {
    if (auto written = co_await parts_.checkpointer.write_until(agent, last); !written)
      co_return std::unexpected(not_in_file(std::move(written.error()), "sessions.json"));
  }
  co_return reply;
}

asio::awaitable<std::vector<std::string>> Ledger::agent_ids(std::optional<std::string> sdk_session) {
  if (!sdk_session) co_return co_await parts_.agents.ids();
  // Fails if a store cannot be read now. Its agent is listed, and whoever shows it learns why.
  static_cast<void>(co_await parts_.sdk_sessions.learn(*sdk_session));
  co_return parts_.sdk_sessions.agents_with(*sdk_session);
}

const decide::AgentState* loaded_state(const LedgerParts& parts, const std::string& agent, std::string_view key) {
  if (const auto* memory = parts.memory.holding(agent, key)) return memory;
  const auto found = parts.agents.all().find(agent);
  return found == parts.agents.all().end() ? nullptr : found->second->state.get();
}

std::string Ledger::as_of(std::uint64_t last_seq) const {
  const fmt::format_int seq(std::max(parts_.commits.durable(), last_seq));
  const std::string& epoch = parts_.commits.journal().epoch();
  std::string id;
  id.reserve(epoch.size() + 1 + seq.size());
  return id.append(epoch).append("-").append(seq.data(), seq.size());
}

std::optional<std::string> Ledger::hidden_name(std::string_view named_agent, std::string_view key_or_id) const {
  if (parts_.memory.is_unused()) return {};
  if (named_agent.empty()) named_agent = store::parse_key(key_or_id).agent;
  const std::string agent = store::normalize_agent_id(named_agent).value_or("");
  if (!parts_.memory.had(agent, key_or_id)) return {};
  const decide::AgentState* memory = parts_.memory.of(agent);
  const decide::AgentState* state = loaded_state(parts_, agent, key_or_id);
  if (state != memory && state != nullptr && state->find(key_or_id) != nullptr) return {};
  return "ephemeral:" + parts_.env.lineage.tag(agent, key_or_id);
}

void Ledger::drain() {
  parts_.env.draining = true;
  parts_.checkpointer.backlog().drain();
}

asio::awaitable<void> Ledger::stop() {
  parts_.env.stopping = true;
  drain();
  parts_.follower.stop();
  parts_.checkpointer.wake();
  co_await parts_.lent.stop();
  co_await parts_.env.background.wait_until_all_ended();
  asio::steady_timer pause(parts_.env.io);
  while (parts_.locks.any_held() ||
         !parts_.env.lock_waiters.empty()) {  // requests that wait for a lock give up, others end
    pause.expires_after(std::chrono::milliseconds(2));
    co_await pause.async_wait(asio::use_awaitable);
  }
  if (auto done = co_await parts_.checkpointer.write_all(); !done) {
    log::error("last_checkpoint_failed",
               {{"error", done.error().detail}, {"next", "the journal has it all; the next start recovers it"}});
  }
}

}  // namespace sessiond::ledger
