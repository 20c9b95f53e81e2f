#include "daemon/ledger/ledger.hpp"

#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <chrono>
#include <set>

#include "daemon/decide/commands.hpp"
#include "daemon/runtime/log.hpp"
#include "daemon/runtime/run_on.hpp"

namespace sessiond::ledger {
namespace {

constexpr int max_fetches = 64;  // facts one decision may ask for
constexpr int most_looks = 8;    // at a transcript that other programs go on writing to

std::string scope_key(const answers::Digest& scope) {
  return {reinterpret_cast<const char*>(scope.data()), scope.size()};
}

// A commit is durable, and its lines cannot be written where other programs look for them: neither stored nor refused.
Problem not_in_file(Problem why) {
  if (why.code == Code::lock_timeout) return why;
  why.detail = "it is in the journal, and not yet in its transcript: " + why.detail;
  why.code = Code::outcome_unknown;
  why.retry_after_s = 1;
  return why;
}

// Takes a key out of the in-flight table when the commit ends, however it ends.
class InFlightKey {
 public:
  InFlightKey(std::unordered_set<std::string>& table, std::string key) : table_(table), key_(std::move(key)) {
    table_.insert(key_);
  }
  InFlightKey(const InFlightKey&) = delete;
  InFlightKey& operator=(const InFlightKey&) = delete;
  ~InFlightKey() { table_.erase(key_); }

 private:
  std::unordered_set<std::string>& table_;
  std::string key_;
};

// Does the outcome say something of where a transcript ends? Of the refusals only these do.
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

// What is kept of an answer: the same under each scope.
std::vector<answers::Answer> answers_of(const std::vector<answers::Digest>& scopes, const answers::Digest& request,
                                        const decide::Decision& decision, std::int64_t now) {
  std::vector<answers::Answer> answers;
  if (scopes.empty()) return answers;
  std::string headers;
  json::ObjectWriter writer(headers);
  if (!decision.etag.empty()) writer.string("etag", decision.etag);
  if (!decision.location.empty()) writer.string("location", decision.location);
  writer.close();
  for (const answers::Digest& scope : scopes) {
    answers.push_back({.scope = scope,
                       .request = request,
                       .time = now,
                       .status = decision.status,
                       .headers = headers,
                       .body = decision.body});
  }
  return answers;
}

}  // namespace

asio::awaitable<Result<Reply>> Ledger::commit(std::string agent, Requester intent, Decide decide, bool create) {
  std::vector<answers::Digest> scopes;  // the first of them is where an answer is looked for
  std::shared_ptr<InFlightKey> guard;
  if (intent.scope) {
    scopes = co_await scopes_of(agent, *intent.scope);
    std::string key = scope_key(scopes.front());
    if (in_flight_keys_.contains(key)) {
      co_return std::unexpected(Problem{.code = Code::idempotency_in_flight,
                                        .detail = "a request with this Idempotency-Key is still running",
                                        .retry_after_s = 1});
    }
    if (const auto known = commits_.answers().find(scopes.front(), commits_.clock().now())) {
      if (known->request != intent.request) {
        co_return fail(Code::idempotency_key_reused,
                       "this Idempotency-Key was used with another body, query or If-Match");
      }
      if (env_.rules.shared) {  // it may have been answered lock_timeout: durable, but not in the files
        if (auto written = co_await flusher_.wait_until_written(agent); !written)
          co_return std::unexpected(written.error());
      }
      co_return replay(*known);
    }
    guard = std::make_shared<InFlightKey>(in_flight_keys_, std::move(key));
  }

  decide::FetchedLines lines;
  decide::FetchedIds ids;
  decide::Decision decision;
  std::uint64_t last = 0;
  bool committed = false;
  std::shared_ptr<TranscriptHold> hold;
  for (int fetches = 0, looks = 0;;) {
    if (env_.stopping) co_return fail(Code::draining, "the daemon is shutting down");
    if (commits_.failed()) co_return commits_.failure();
    Agent& there = agents_.find_or_add(agent);
    there.touched = store::steady_ms();
    if (!there.state || there.turn == Turn::loading) {
      if (auto loaded = co_await agents_.load(agent, create); !loaded)
        co_return std::unexpected(std::move(loaded.error()));
      continue;  // much may have changed while we waited
    }
    if (!there.degraded.empty()) {
      if (auto looked = co_await agents_.reload_if_changed(agent); !looked)
        co_return std::unexpected(std::move(looked.error()));
      if (agents_.find_or_add(agent).degraded.empty()) continue;
      co_return std::unexpected(degraded_problem(agent, agents_.find_or_add(agent).degraded));
    }
    if (!checkpointer_.has_room()) {
      hold.reset();  // no lock is kept from others while we wait for room
      if (auto room = co_await checkpointer_.wait_for_room(); !room) co_return std::unexpected(std::move(room.error()));
      continue;
    }
    if (auto room = checkpointer_.check_lag(there); !room) co_return std::unexpected(std::move(room.error()));
    decide::AgentState& state = *there.state;
    std::string rests_on;
    decide::Context now = commits_.context(intent.actor, "api");
    now.rests_on = &rests_on;
    now.on_disk = &ids;
    auto decided = decide(state, now, lines);
    if (!rests_on.empty() && tells_of_end(decided)) {
      if (env_.rules.shared && (!hold || hold->file != rests_on)) {
        hold = locks_.join(agent, rests_on);
        if (!hold) {
          auto taken = co_await locks_.take(agent, rests_on);
          if (!taken) co_return std::unexpected(std::move(taken.error()));
          hold = std::move(*taken);
          continue;
        }
      }
      // A program that takes no lock may go on writing for ever: it is told where it took our place.
      if (!locks_.ends_as_known(state, rests_on) && ++looks <= most_looks) {
        if (auto published = co_await follower_.publish(agent, rests_on); !published)
          co_return std::unexpected(std::move(published.error()));
        continue;
      }
    }
    if (!decided) {
      // What the refusal was decided on must be durable before it shows.
      if (auto fine = co_await commits_.wait_until_durable(state.last_seq); !fine)
        co_return std::unexpected(std::move(fine.error()));
      co_return std::unexpected(std::move(decided.error()));
    }
    decision = std::move(*decided);
    if (!decision.need) {
      if (auto fine = flusher_.check_usable(agent, decision); !fine) co_return std::unexpected(std::move(fine.error()));
      committed = !decision.events.empty();
      last = agents_.stage(state, decision, answers_of(scopes, intent.request, decision, commits_.clock().now()));
      break;
    }
    if (++fetches == max_fetches) co_return fail(Code::session_busy, "the transcript keeps changing; try again");
    if (auto fetched = co_await fetch(agent, *decision.need, lines, ids); !fetched) {
      co_return std::unexpected(std::move(fetched.error()));
    }
  }

  // Nothing to journal, so the answer is kept by itself, once what it rests on is durable.
  std::vector<answers::Answer> unstored;
  if (!committed) unstored = answers_of(scopes, intent.request, decision, commits_.clock().now());
  Reply reply{.status = decision.status,
              .body = std::move(decision.body),
              .etag = std::move(decision.etag),
              .location = std::move(decision.location)};
  if (intent.respond_async && committed) {
    reply.status = 202;
    env_.background.run(finish(last, agent, std::move(decision.transcript_updates), guard, std::move(hold)), "finish");
    co_return reply;
  }
  if (auto fine = co_await commits_.wait_until_durable(last); !fine) co_return std::unexpected(std::move(fine.error()));
  if (!committed) {
    for (const answers::Answer& answer : unstored) commits_.answers().put(answer);
    co_return reply;
  }
  if (env_.rules.shared) {
    for (const decide::TranscriptUpdate& update : decision.transcript_updates) {
      if (auto written = co_await flusher_.wait_until_written(agent, update.file); !written)
        co_return std::unexpected(not_in_file(std::move(written.error())));
    }
  }
  if (hold) co_await locks_.release(std::move(hold));
  if (env_.config.store.write_through || (env_.rules.shared && decision.through_checkpoint)) {
    if (auto written = co_await checkpointer_.write_until(agent, last); !written)
      co_return std::unexpected(std::move(written.error()));
  }
  co_return reply;
}

// The key is in flight until the answer is kept, the transcript is held until the lines are in it. Whoever waits for
// what fails here is told.
asio::awaitable<void> Ledger::finish(std::uint64_t seq, std::string agent,
                                     std::vector<decide::TranscriptUpdate> transcript_updates,
                                     std::shared_ptr<void> key, std::shared_ptr<TranscriptHold> hold) {
  if (auto fine = co_await commits_.wait_until_durable(seq); !fine) co_return;
  key.reset();
  if (!hold) co_return;
  for (const decide::TranscriptUpdate& update : transcript_updates) {
    if (auto written = co_await flusher_.wait_until_written(agent, update.file); !written) co_return;
  }
  co_await locks_.release(std::move(hold));
}

// Of a session that is there: its key, however it was named; by its id too, which a reset takes from it. Else its name.
asio::awaitable<std::vector<answers::Digest>> Ledger::scopes_of(const std::string& agent,
                                                                const IdempotencyScope& scope) {
  std::vector<answers::Digest> scopes{scope.of(scope.session)};
  if (scope.session.empty() || !co_await agents_.load(agent, false)) co_return scopes;
  const decide::AgentState* state = agents_.find_or_add(agent).state.get();
  const decide::Session* session = state == nullptr ? nullptr : state->find(scope.session);
  if (session == nullptr || session->key() == scope.session) co_return scopes;
  if (state->find_key(scope.session) != nullptr) scopes.clear();
  scopes.insert(scopes.begin(), scope.of(session->key()));
  co_return scopes;
}

asio::awaitable<Result<Reply>> Ledger::announce(journal::EventType type, std::string data, std::string actor,
                                                std::string agent) {
  auto done = co_await commits_.announce(type, std::move(data), std::move(actor), std::move(agent));
  if (!done) co_return std::unexpected(std::move(done.error()));
  co_return Reply{};
}

void Ledger::on_durable(journal::BatchOutcome batch, std::vector<journal::Event> events, bool archives) {
  checkpointer_.on_durable();
  flusher_.add(std::move(batch.commits), archives, batch.bytes);
  if (on_events_ && !events.empty()) on_events_(std::move(events));
}

// An agent that nobody asks for would hold CHECKPOINT back.
asio::awaitable<void> Ledger::reload(std::set<std::string> ids) {
  for (const std::string& id : ids) {
    if (auto loaded = co_await agents_.load(id, true); !loaded) {
      log::error("agent_not_rebuilt",
                 {{"agent", id}, {"error", loaded.error().detail}, {"next", "tried again when it is used"}});
    }
  }
}

std::string Ledger::as_of(std::uint64_t last_seq) const {
  return fmt::format("{}-{}", commits_.journal().epoch(), std::max(commits_.durable(), last_seq));
}

LedgerStatus Ledger::status() const {
  LedgerStatus out;
  const Commits::Counters& counters = commits_.counters();
  out.commits = counters.commits;
  out.batches = counters.batches;
  out.batch_bytes = counters.batch_bytes;
  out.sync_ns = counters.sync_ns;
  out.checkpoints = checkpointer_.checkpoints();
  out.evictions = notices_.evictions();
  out.head = commits_.last();
  out.durable = commits_.durable();
  out.oldest = commits_.journal().oldest();
  const std::int64_t now = store::steady_ms();
  out.refusal = commits_.refusal();
  if (out.refusal.empty() && flusher_.facts().failing) out.refusal = "transcripts cannot be written (see the log)";
  out.writable = out.refusal.empty();
  out.repairs = notices_.repairs();
  out.damage = journal_files_.damage();
  out.journal_check = journal_files_.check();
  out.unwatched = follower_.unwatched();
  out.answers_truncated = commits_.answers().truncated();
  for (const std::string& path : follower_.databases())
    out.degraded.push_back(path + ": sessions that OpenClaw 2026.8 or later keeps there are not served");
  if (!checkpointer_.trouble().empty()) out.lagging.push_back(checkpointer_.trouble());
  for (const auto& [id, agent] : agents_.all()) {
    if (agent->state) ++out.agents;
    if (!agent->degraded.empty()) {
      out.degraded.push_back(fmt::format(
          "agent {}: {}; the journal keeps {} KiB for it", id, agent->degraded,
          agent->rebuild || agent->dirty_since != 0 ? commits_.journal().bytes_after(agent->file_seq) >> 10 : 0));
    } else if (agent->dirty_since != 0) {
      out.checkpoint_lag_ms = std::max(out.checkpoint_lag_ms, now - agent->dirty_since);
    }
    if (agent->loading_bytes != 0)
      out.loading.push_back(fmt::format("agent {}: {} MiB", id, agent->loading_bytes >> 20));
    if (!agent->trouble.empty()) out.lagging.push_back(fmt::format("{}: {}", id, agent->trouble));
    if (agent->lock_wanted != 0) ++out.lock_waits;
  }
  for (const auto& [file, held] : flusher_.locked()) {
    if (!held.why.empty()) {
      out.degraded.push_back(held.why);
      continue;
    }
    ++out.lock_waits;
    if (now - held.since > transcript_lock_timeout_ms)
      out.lagging.push_back(fmt::format("{} waits {} s for its lock", file, (now - held.since) / 1000));
  }
  out.recovering.assign(flusher_.recovering().begin(), flusher_.recovering().end());
  return out;
}

Ledger::AgentStatus Ledger::agent_status(std::string_view id) const {
  const auto found = agents_.all().find(id);
  if (found == agents_.all().end()) return {};
  const Agent& agent = *found->second;
  return {.checkpoint_lag_ms = agent.dirty_since == 0 ? 0 : store::steady_ms() - agent.dirty_since,
          .dirty = agent.dirty_since != 0,
          .bytes = agent.bytes};
}

// Sessions that were to live no longer than the daemon that made them.
asio::awaitable<void> Ledger::purge_ephemeral(std::string id) {
  const auto state = agents_.find_or_add(id).state;  // none: it left memory, or is read again
  std::vector<std::string> keys;
  if (!state) co_return;
  for (const auto& [key, session] : state->by_name()) {
    if (session->ephemeral && session->created_at < env_.started) keys.emplace_back(key);
  }
  for (const std::string& key : keys) {
    decide::DeleteSession command{.target = {.key = key}, .purge = true, .missing_ok = true};
    const auto done =
        co_await commit(id, {.actor = "sessiond"},
                        [command](const decide::AgentState& state, const decide::Context& context,
                                  const decide::FetchedLines&) { return decide::decide(state, command, context); });
    if (!done) log::warn("ephemeral_session_stays", {{"agent", id}, {"key", key}, {"error", done.error().detail}});
  }
}

void Ledger::drain() {
  env_.draining = true;
  checkpointer_.drain();
}

asio::awaitable<void> Ledger::stop() {
  env_.stopping = true;
  drain();
  follower_.stop();
  checkpointer_.wake();
  co_await env_.background.wait_until_all_ended();
  asio::steady_timer pause(env_.io);
  while (locks_.held() > 0 ||
         !env_.lock_waiters.empty()) {  // requests that wait for a lock give up, those that have it end
    pause.expires_after(std::chrono::milliseconds(2));
    co_await pause.async_wait(asio::use_awaitable);
  }
  if (auto done = co_await checkpointer_.write_all(); !done) {
    log::error("last_checkpoint_failed",
               {{"error", done.error().detail}, {"next", "the journal has it all; the next start recovers it"}});
  }
}

}  // namespace sessiond::ledger
