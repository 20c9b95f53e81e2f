#include "daemon/ledger/ledger.hpp"

#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <chrono>
#include <set>

#include "daemon/decide/apply.hpp"
#include "daemon/ledger/agent.hpp"
#include "daemon/ledger/transcript_hold.hpp"
#include "daemon/runtime/hop.hpp"
#include "daemon/runtime/log.hpp"
#include "store/clock.hpp"

namespace sessiond {
namespace {

constexpr std::uint64_t max_backlog = 64ULL << 20;  // bytes of journal beyond CHECKPOINT; then writers wait
constexpr std::int64_t room_patience_ms = 10'000;   // so long a writer waits for that; then 503
constexpr int max_fetches = 64;                     // facts one decision may ask for
constexpr int most_looks = 8;                       // at a transcript that other programs go on writing to
constexpr std::int64_t refusal_told_ms = 5000;      // a refused write makes unready that long, or until one is stored

std::string scope_key(const Digest& scope) { return {reinterpret_cast<const char*>(scope.data()), scope.size()}; }

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
bool tells_of_end(const Result<Decision>& decided) {
  return decided || decided.error().code == Code::precondition_failed ||
         decided.error().code == Code::entry_id_conflict;
}

Reply replay(const Answer& answer) {
  return {.status = answer.status,
          .body = answer.body,
          .etag = json::string_at(answer.headers, "etag").value_or(""),
          .location = json::string_at(answer.headers, "location").value_or(""),
          .replayed = true};
}

// What is kept of an answer: the same under each scope.
std::vector<Answer> answers_of(const std::vector<Digest>& scopes, const Digest& request, const Decision& decision,
                               std::int64_t now) {
  std::vector<Answer> answers;
  if (scopes.empty()) return answers;
  std::string headers;
  json::ObjectWriter writer(headers);
  if (!decision.etag.empty()) writer.string("etag", decision.etag);
  if (!decision.location.empty()) writer.string("location", decision.location);
  writer.close();
  for (const Digest& scope : scopes) {
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

Problem degraded_problem(const std::string& agent, std::string_view why) {
  return {
      .code = Code::degraded, .detail = fmt::format("agent {} cannot be served: {}", agent, why), .retry_after_s = 5};
}

std::function<void(std::exception_ptr)> or_terminate(std::string_view what) {
  return [what](const std::exception_ptr& thrown) {
    if (!thrown) return;
    try {
      std::rethrow_exception(thrown);
    } catch (const std::exception& error) {
      log::error("fatal", {{"in", what}, {"error", error.what()}, {"next", "ending; the next start recovers"}});
    } catch (...) {
      log::error("fatal", {{"in", what}, {"next", "ending; the next start recovers"}});
    }
    std::terminate();
  };
}

Context Ledger::context(const Requester& intent, std::string_view source) {
  return {.next_seq = next_seq_,
          .now = unix_ms(),
          .epoch = epoch_,
          .actor = intent.actor,
          .source = source,
          .rules = &rules_,
          .ids = &ids_,
          .oldest_seq = journal_->oldest()};
}

std::string Ledger::as_of(std::uint64_t last_seq) const {
  return fmt::format("{}-{}", epoch_, std::max(durable_, last_seq));
}

asio::awaitable<Result<void>> Ledger::settled(std::uint64_t seq) {
  if (seq <= durable_) co_return Result<void>{};
  if (failed_) co_return std::unexpected(*failure_);  // this seq will be another's
  if (const auto trouble = co_await gate_.wait(seq)) co_return std::unexpected(*trouble);
  co_return Result<void>{};
}

asio::awaitable<Waiters::Outcome> Ledger::taken_back(std::uint64_t seq) {
  const Waiters::Outcome why = failed_ ? failure_ : co_await gate_.wait(seq);
  if (why && failed_) co_await mended_.wait(0);
  co_return why;
}

asio::awaitable<Result<Reply>> Ledger::commit(std::string agent, Requester intent, Decide decide, bool create) {
  std::vector<Digest> scopes;  // the first of them is where an answer is looked for
  std::shared_ptr<InFlightKey> guard;
  if (intent.scope) {
    scopes = co_await scopes_of(agent, *intent.scope);
    std::string key = scope_key(scopes.front());
    if (in_flight_keys_.contains(key)) {
      co_return std::unexpected(Problem{.code = Code::idempotency_in_flight,
                                        .detail = "a request with this Idempotency-Key is still running",
                                        .retry_after_s = 1});
    }
    if (const auto known = answers_->find(scopes.front(), clock_->now())) {
      if (known->request != intent.request) {
        co_return fail(Code::idempotency_key_reused,
                       "this Idempotency-Key was used with another body, query or If-Match");
      }
      if (rules_.shared) {  // it may have been answered lock_timeout: durable, but not in the files
        if (auto written = co_await lines_written(agent); !written) co_return std::unexpected(written.error());
      }
      co_return replay(*known);
    }
    guard = std::make_shared<InFlightKey>(in_flight_keys_, std::move(key));
  }

  FetchedLines lines;
  FetchedIds ids;
  Decision decision;
  std::uint64_t last = 0;
  bool committed = false;
  std::shared_ptr<TranscriptHold> hold;
  for (int fetches = 0, looks = 0;;) {
    if (stopping_) co_return fail(Code::draining, "the daemon is shutting down");
    if (failed_) co_return std::unexpected(*failure_);
    Agent& there = slot(agent);
    there.touched = steady_ms();
    if (!there.state || there.loading) {
      if (auto loaded = co_await ensure_loaded(agent, create); !loaded)
        co_return std::unexpected(std::move(loaded.error()));
      continue;  // much may have changed while we waited
    }
    if (!there.degraded.empty()) {
      if (auto looked = co_await look_again(agent); !looked) co_return std::unexpected(std::move(looked.error()));
      if (slot(agent).degraded.empty()) continue;
      co_return std::unexpected(degraded_problem(agent, slot(agent).degraded));
    }
    if (backlog_ > max_backlog) {
      hold.reset();  // no lock is kept from others while we wait for room
      if (auto room = co_await wait_for_room(); !room) co_return std::unexpected(std::move(room.error()));
      continue;
    }
    if (auto room = check_own_backlog(there); !room) co_return std::unexpected(std::move(room.error()));
    AgentState& state = *there.state;
    std::string rests_on;
    Context now = context(intent, "api");
    now.rests_on = &rests_on;
    now.on_disk = &ids;
    auto decided = decide(state, now, lines);
    if (!rests_on.empty() && tells_of_end(decided)) {
      if (rules_.shared && (!hold || hold->file != rests_on)) {
        hold = join_hold(agent, rests_on);
        if (!hold) {
          auto taken = co_await hold_transcript(agent, rests_on);
          if (!taken) co_return std::unexpected(std::move(taken.error()));
          hold = std::move(*taken);
          continue;
        }
      }
      // A program that takes no lock may go on writing for ever: it is told where it took our place.
      if (!ends_as_known(state, rests_on) && ++looks <= most_looks) {
        if (auto published = co_await publish(agent, rests_on); !published)
          co_return std::unexpected(std::move(published.error()));
        continue;
      }
    }
    if (!decided) {
      // What the refusal was decided on must be durable before it shows.
      if (auto fine = co_await settled(state.last_seq); !fine) co_return std::unexpected(std::move(fine.error()));
      co_return std::unexpected(std::move(decided.error()));
    }
    decision = std::move(*decided);
    if (!decision.need) {
      if (auto fine = check_stuck(agent, decision); !fine) co_return std::unexpected(std::move(fine.error()));
      committed = !decision.events.empty();
      auto staged = stage(state, decision, answers_of(scopes, intent.request, decision, clock_->now()));
      if (!staged) co_return std::unexpected(std::move(staged.error()));
      last = *staged;
      break;
    }
    if (++fetches == max_fetches) co_return fail(Code::session_busy, "the transcript keeps changing; try again");
    if (auto fetched = co_await fetch(agent, *decision.need, lines, ids); !fetched) {
      co_return std::unexpected(std::move(fetched.error()));
    }
  }

  // Nothing to journal, so the answer is kept by itself, once what it rests on is durable.
  std::vector<Answer> unstored;
  if (!committed) unstored = answers_of(scopes, intent.request, decision, clock_->now());
  Reply reply{.status = decision.status,
              .body = std::move(decision.body),
              .etag = std::move(decision.etag),
              .location = std::move(decision.location)};
  if (intent.respond_async && committed) {
    reply.status = 202;
    in_background(finish(last, agent, std::move(decision.transcript_updates), guard, std::move(hold)), "finish");
    co_return reply;
  }
  if (auto fine = co_await settled(last); !fine) co_return std::unexpected(std::move(fine.error()));
  if (!committed) {
    for (const Answer& answer : unstored) answers_->put(answer);
    co_return reply;
  }
  if (rules_.shared) {
    for (const TranscriptUpdate& update : decision.transcript_updates) {
      if (auto written = co_await lines_written(agent, update.file); !written)
        co_return std::unexpected(not_in_file(std::move(written.error())));
    }
  }
  if (hold) co_await end_hold(std::move(hold));
  if (config_.store.write_through || (rules_.shared && decision.through_checkpoint)) {
    if (auto written = co_await write_store(agent, last); !written)
      co_return std::unexpected(std::move(written.error()));
  }
  co_return reply;
}

// Not for ever: whatever keeps the files from following the journal may stay.
asio::awaitable<Result<void>> Ledger::wait_for_room() {
  checkpoint_timer_.cancel();  // wakes the loop
  if (!std::exchange(room_watched_, true)) in_background(end_waits_for_room(), "end_waits_for_room");
  if (draining_) co_return fail(Code::draining, "the daemon is shutting down");
  const auto deadline = static_cast<std::uint64_t>(steady_ms() + room_patience_ms);
  while (backlog_ > max_backlog) {
    if (const auto trouble = co_await room_.wait(deadline)) co_return std::unexpected(*trouble);
  }
  co_return Result<void>{};
}

asio::awaitable<void> Ledger::end_waits_for_room() {
  asio::steady_timer pause(io_);
  do {
    pause.expires_after(std::chrono::milliseconds(250));
    co_await pause.async_wait(asio::use_awaitable);
    room_.expire(static_cast<std::uint64_t>(steady_ms()),
                 std::make_shared<const Problem>(
                     Problem{.code = Code::degraded,
                             .detail = fmt::format("the journal is {} MiB ahead of the files, which do not follow{}{}",
                                                   backlog_ >> 20, sync_trouble_.empty() ? "" : ": ", sync_trouble_),
                             .retry_after_s = 5}));
  } while (!room_.empty() && !stopping_);
  room_watched_ = false;
}

// An agent whose checkpoint fails is left out of what all wait for; its own events are not kept without end.
Result<void> Ledger::check_own_backlog(const Agent& agent) const {
  if (agent.trouble.empty() || journal_->bytes_after(agent.file_seq) <= max_backlog) return {};
  return std::unexpected(Problem{.code = Code::degraded,
                                 .detail = fmt::format("agent {} cannot be written, and more than {} MiB of journal "
                                                       "wait for it: {}",
                                                       agent.id, max_backlog >> 20, agent.trouble),
                                 .retry_after_s = 5});
}

// The key is in flight until the answer is kept, the transcript is held until the lines are in it. Whoever waits for
// what fails here is told.
asio::awaitable<void> Ledger::finish(std::uint64_t seq, std::string agent,
                                     std::vector<TranscriptUpdate> transcript_updates, std::shared_ptr<void> key,
                                     std::shared_ptr<TranscriptHold> hold) {
  if (auto fine = co_await settled(seq); !fine) co_return;
  key.reset();
  if (!hold) co_return;
  for (const TranscriptUpdate& update : transcript_updates) {
    if (auto written = co_await lines_written(agent, update.file); !written) co_return;
  }
  co_await end_hold(std::move(hold));
}

// Of a session that is there: its key, however it was named; by its id too, which a reset takes from it. Else its name.
asio::awaitable<std::vector<Digest>> Ledger::scopes_of(const std::string& agent, const IdempotencyScope& scope) {
  std::vector<Digest> scopes{scope.of(scope.session)};
  if (scope.session.empty() || !co_await ensure_loaded(agent, false)) co_return scopes;
  const AgentState* state = in_memory(agent);
  const Session* session = state == nullptr ? nullptr : state->find(scope.session);
  if (session == nullptr || session->key() == scope.session) co_return scopes;
  if (state->find_key(scope.session) != nullptr) scopes.clear();
  scopes.insert(scopes.begin(), scope.of(session->key()));
  co_return scopes;
}

asio::awaitable<Result<Reply>> Ledger::announce(EventType type, std::string data, std::string actor,
                                                std::string agent) {
  AgentState nobody(agent);
  const Requester intent{.actor = std::move(actor)};
  if (stopping_) co_return fail(Code::draining, "the daemon is shutting down");
  if (failed_) co_return std::unexpected(*failure_);
  const Context now = context(intent, "api");
  Decision decision;
  decision.events.push_back(make_event(
      {.seq = now.next_seq, .time = now.now, .type = type, .agent = agent, .actor = intent.actor, .source = "api"},
      data));
  auto last = stage(nobody, decision);
  if (!last) co_return std::unexpected(std::move(last.error()));
  if (auto fine = co_await settled(*last); !fine) co_return std::unexpected(std::move(fine.error()));
  co_return Reply{};
}

Result<std::uint64_t> Ledger::stage(AgentState& state, Decision& decision, std::vector<Answer> answers) {
  if (decision.events.empty()) return state.last_seq;
  for (const Event& event : decision.events) apply(state, event);
  for (const TranscriptUpdate& update : decision.transcript_updates) apply(state, update);
  if (!state.dirty.empty()) {
    Agent& agent = slot(state.id());
    if (agent.dirty_since == 0) {
      agent.dirty_since = steady_ms();
      checkpoint_timer_.cancel_one();
    }
  }
  Commit commit{
      .first_seq = next_seq_, .events = {}, .answers = {}, .line_positions = std::move(decision.line_positions)};
  commit.events.reserve(decision.events.size());
  for (const Event& event : decision.events) commit.events.push_back(event.json);
  InFlight& in_flight = in_flight_.emplace_back();
  next_seq_ += decision.events.size();
  in_flight.last = next_seq_ - 1;
  in_flight.agent = state.id();
  in_flight.archives = std::ranges::any_of(
      decision.events, [](const Event& event) { return Projection::archives(event.envelope.type); });
  in_flight.events = std::move(decision.events);
  for (const Answer& answer : answers) commit.answers.push_back(to_json(answer));
  in_flight.answers = std::move(answers);
  ++counters_.commits;
  journal_->append(std::move(commit));
  return next_seq_ - 1;
}

void Ledger::on_outcome(BatchOutcome outcome) {
  if (outcome.kind == BatchOutcome::Kind::durable) {
    on_durable(std::move(outcome));
  } else {
    on_failure(outcome);
  }
}

void Ledger::on_durable(BatchOutcome outcome) {
  durable_ = outcome.last;
  refused_at_ = 0;
  backlog_ = journal_->bytes_after(backlog_from_);
  ++counters_.batches;
  counters_.batch_bytes += outcome.bytes;
  counters_.sync_ns += outcome.sync_ns;
  bool archives = false;
  std::vector<Event> events;
  while (!in_flight_.empty() && in_flight_.front().last <= outcome.last) {
    InFlight& done = in_flight_.front();
    for (const Answer& answer : done.answers) answers_->put(answer);
    archives = archives || done.archives;
    std::ranges::move(done.events, std::back_inserter(events));
    in_flight_.pop_front();
  }
  project(std::move(outcome.commits), archives, outcome.bytes);
  if (on_events_ && !events.empty()) on_events_(std::move(events));  // streams that replies lead to find them
  gate_.release(durable_);
}

void Ledger::on_failure(const BatchOutcome& outcome) {
  const bool unknown = outcome.kind == BatchOutcome::Kind::outcome_unknown;
  Problem problem = outcome.problem;
  if (unknown) {
    problem.code = Code::outcome_unknown;
    problem.retry_after_s = 1;
  }
  failure_ = std::make_shared<const Problem>(std::move(problem));
  refused_at_ = steady_ms();
  refusal_ = failure_->detail;
  if (!failed_) {
    log::error("batch_not_stored", {{"first", outcome.first},
                                    {"last", outcome.last},
                                    {"unknown", unknown ? "yes" : "no"},
                                    {"error", failure_->detail}});
  }
  const bool first_failure = !failed_;
  failed_ = true;
  while (!in_flight_.empty() && in_flight_.front().last <= outcome.last) {
    touched_by_failure_.push_back(in_flight_.front().agent);
    in_flight_.pop_front();
  }
  gate_.fail(outcome.first, failure_);
  if (first_failure) in_background(rebuild(), "rebuild");
}

// Goes back to durable state: what failed is forgotten, the agents it touched are read again.
asio::awaitable<void> Ledger::rebuild() {
  asio::steady_timer pause(io_);
  for (;;) {
    while (!in_flight_.empty()) {  // the journal gives back all that waits
      pause.expires_after(std::chrono::milliseconds(2));
      co_await pause.async_wait(asio::use_awaitable);
    }
    const auto resumed = co_await hop(disk_.get_executor(), [this] { return journal_->resume(); });
    if (resumed) break;
    log::error("journal_unwritable", {{"error", resumed.error().detail}, {"next", "trying again in 1 s"}});
    mended_.release(0);  // whoever asks meanwhile is told why
    if (stopping_) co_return;
    pause.expires_after(std::chrono::seconds(1));
    co_await pause.async_wait(asio::use_awaitable);
  }
  next_seq_ = journal_->head() + 1;
  std::set<std::string> touched;
  while (!touched_by_failure_.empty()) {  // it may grow while we wait
    const std::string id = std::move(touched_by_failure_.back());
    touched_by_failure_.pop_back();
    const auto found = agents_.find(id);
    if (found == agents_.end()) continue;  // nobody's, or only announced
    const auto agent = found->second;
    while (agent->checkpointing || agent->looking || agent->loading) co_await agent->waiting.wait(0);
    agent->state.reset();
    agent->rebuild = true;
    touched.insert(id);
  }
  next_seq_ = journal_->head() + 1;
  failed_ = false;
  failure_ = nullptr;
  mended_.release(0);
  log::info("journal_writable", {{"head", next_seq_ - 1}});
  for (const std::string& id : touched) {  // an agent that nobody asks for would hold CHECKPOINT back
    if (auto loaded = co_await ensure_loaded(id, true); !loaded) {
      log::error("agent_not_rebuilt",
                 {{"agent", id}, {"error", loaded.error().detail}, {"next", "tried again when it is used"}});
    }
  }
}

LedgerStatus Ledger::status() const {
  LedgerStatus out = counters_;
  out.head = next_seq_ - 1;
  out.durable = durable_;
  out.oldest = journal_->oldest();
  const std::int64_t now = steady_ms();
  const bool refusing = failed_ || (refused_at_ != 0 && now - refused_at_ < refusal_told_ms);
  out.writable = !refusing && !projection_failing_;
  if (refusing) {
    out.refusal = refusal_;
  } else if (projection_failing_) {
    out.refusal = "transcripts cannot be written (see the log)";
  }
  out.repairs = repairs_;
  out.damage = journal_files_.damage();
  out.journal_check = journal_files_.check();
  out.unwatched = unwatched_;
  out.answers_truncated = answers_->truncated();
  for (const std::string& path : databases_)
    out.degraded.push_back(path + ": sessions that OpenClaw 2026.8 or later keeps there are not served");
  if (!sync_trouble_.empty()) out.lagging.push_back(sync_trouble_);
  for (const auto& [id, agent] : agents_) {
    if (agent->state) ++out.agents;
    if (!agent->degraded.empty()) {
      out.degraded.push_back(
          fmt::format("agent {}: {}; the journal keeps {} KiB for it", id, agent->degraded,
                      agent->rebuild || agent->dirty_since != 0 ? journal_->bytes_after(agent->file_seq) >> 10 : 0));
    } else if (agent->dirty_since != 0) {
      out.checkpoint_lag_ms = std::max(out.checkpoint_lag_ms, now - agent->dirty_since);
    }
    if (agent->loading_bytes != 0)
      out.loading.push_back(fmt::format("agent {}: {} MiB", id, agent->loading_bytes >> 20));
    if (!agent->trouble.empty()) out.lagging.push_back(fmt::format("{}: {}", id, agent->trouble));
    if (agent->lock_wanted != 0) ++out.lock_waits;
  }
  for (const auto& [file, held] : held_) {
    if (!held.why.empty()) {
      out.degraded.push_back(held.why);
      continue;
    }
    ++out.lock_waits;
    if (now - held.since > transcript_lock_timeout_ms)
      out.lagging.push_back(fmt::format("{} waits {} s for its lock", file, (now - held.since) / 1000));
  }
  out.recovering.assign(recovered_.begin(), recovered_.end());
  return out;
}

Ledger::AgentStatus Ledger::agent_status(std::string_view id) const {
  const auto found = agents_.find(id);
  if (found == agents_.end()) return {};
  const Agent& agent = *found->second;
  return {.checkpoint_lag_ms = agent.dirty_since == 0 ? 0 : steady_ms() - agent.dirty_since,
          .dirty = agent.dirty_since != 0,
          .bytes = agent.bytes};
}

}  // namespace sessiond
