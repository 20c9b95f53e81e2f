#include "daemon/ledger/commits.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cassert>
#include <utility>

#include "daemon/decide/apply.hpp"
#include "daemon/ledger/projection.hpp"
#include "daemon/runtime/log.hpp"
#include "daemon/runtime/run_on.hpp"

namespace sessiond::ledger {
namespace {

constexpr std::int64_t refusal_told_ms = 5000;  // so long a refused write makes /readyz unready, unless one is stored

}  // namespace

Commits::Commits(LedgerEnv& env, std::unique_ptr<journal::Journal> journal,
                 std::unique_ptr<answers::KeptAnswers> answers, std::unique_ptr<journal::AgeClock> clock)
    : env_(env),
      ids_(decide::IdSource::secure()),
      answers_(std::move(answers)),
      clock_(std::move(clock)),
      next_seq_(journal->head() + 1),
      durable_(journal->head()),
      journal_(std::move(journal)) {}

Commits::~Commits() { hand_over(); }

decide::Context Commits::context(std::string_view actor, std::string_view source) {
  return {.next_seq = next_seq_,
          .now = env_.clock.wall_ms(),
          .age_now = clock_->now(),
          .epoch = journal_->epoch(),
          .actor = actor,
          .source = source,
          .rules = &env_.rules,
          .ids = &ids_,
          .lineage = &env_.lineage,
          .oldest_seq = journal_->oldest(),
          .pulse_of = env_.pulse_of,
          .orders = {.adoptions = env_.adoptions.get(), .hooks = env_.hooks.get()}};
}

std::unexpected<Problem> Commits::failure() const {
  assert(failed());
  return std::unexpected(*failure_);
}

asio::awaitable<Result<void>> Commits::wait_until_durable(std::uint64_t seq) {
  if (seq <= durable_) co_return Result<void>{};
  if (failed()) co_return failure();  // this seq will be given to another event
  if (const auto trouble = co_await gate_.wait(seq)) co_return std::unexpected(*trouble);
  co_return Result<void>{};
}

asio::awaitable<runtime::Waiters::Outcome> Commits::wait_for_outcome(std::uint64_t seq) {
  const runtime::Waiters::Outcome why = failed() ? failure_ : co_await gate_.wait(seq);
  if (why && failed()) co_await rebuilt_.wait(0);
  co_return why;
}

asio::awaitable<Result<void>> Commits::announce(journal::EventType type, std::string data, std::string actor,
                                                std::string agent) {
  decide::AgentState nobody(agent);
  if (env_.stopping) co_return fail(Code::draining, "the daemon is shutting down");
  if (failed()) co_return failure();
  const decide::Context now = context(actor, "api");
  decide::Decision decision;
  decision.events.push_back({journal::make_event(
      {.seq = now.next_seq, .time = now.now, .type = type, .agent = agent, .actor = actor, .source = "api"}, data)});
  co_return co_await wait_until_durable(stage(nobody, decision));
}

std::uint64_t Commits::stage(decide::AgentState& state, decide::Decision& decision,
                             std::vector<answers::Answer> answers) {
  assert(env_.loop.is_current());
  if (decision.events.empty()) return state.last_seq;
  assert(!failed());
  assert(decision.events.front().envelope.seq == next_seq_);
  for (decide::Change& change : decision.events) {
    decide::encode(change);
    assert(decide::reads_back(change));
    const bool is_last = &change == &decision.events.back();
    decide::apply(state, change, decide::Replay::no, is_last ? decision.edited.get() : nullptr);
    change.edit.reset();
    if (change.payload != nullptr) decide::forget_text(*change.payload);
  }
  for (const decide::TranscriptUpdate& update : decision.transcript_updates) decide::apply(state, update);
  for (const std::string& file : decision.outdated) state.transcripts.forget(file);
  journal::Commit commit{
      .first_seq = next_seq_, .events = {}, .answers = {}, .line_positions = std::move(decision.line_positions)};
  commit.events.reserve(decision.events.size());
  for (const journal::Event& event : decision.events) commit.events.push_back(event.json);
  InFlight& in_flight = in_flight_.emplace_back();
  next_seq_ += decision.events.size();
  in_flight.last = next_seq_ - 1;
  in_flight.agent = state.id();
  in_flight.archives =
      std::ranges::any_of(decision.events, [](const journal::Event& event) { return renames_files(event); });
  in_flight.changes = std::move(decision.events);
  for (const answers::Answer& answer : answers) commit.answers.push_back(answers::to_json(answer));
  in_flight.answers_json = commit.answers;
  in_flight.answers = std::move(answers);
  ++counters_.commits;
  staged_.push_back(std::move(commit));
  if (staged_.size() == 1) asio::post(env_.io, [this] { hand_over(); });
  return next_seq_ - 1;
}

// Comes after all that was ready when the first of them was staged.
void Commits::hand_over() {
  if (!staged_.empty()) journal_->append(std::exchange(staged_, {}));
}

void Commits::on_outcome(journal::BatchOutcome outcome) {
  assert(env_.loop.is_current());
  if (outcome.kind == journal::BatchOutcome::Kind::durable) {
    on_durable(std::move(outcome));
  } else {
    on_failure(outcome);
  }
}

void Commits::on_durable(journal::BatchOutcome outcome) {
  durable_ = outcome.last;
  refused_at_ = 0;
  ++counters_.batches;
  counters_.batch_bytes += outcome.bytes;
  counters_.sync_ns += outcome.sync_ns;
  const auto bound = std::ranges::lower_bound(Counters::sync_bounds, static_cast<double>(outcome.sync_ns) / 1e9);
  ++counters_.syncs.at(static_cast<std::size_t>(bound - Counters::sync_bounds.begin()));
  bool archives = false;
  std::vector<decide::Change> changes;
  while (!in_flight_.empty() && in_flight_.front().last <= outcome.last) {
    InFlight& done = in_flight_.front();
    for (std::size_t index = 0; index < done.answers.size(); ++index)
      answers_->put(std::move(done.answers[index]), std::move(done.answers_json[index]));
    archives = archives || done.archives;
    if (changes.empty())
      changes = std::move(done.changes);
    else
      std::ranges::move(done.changes, std::back_inserter(changes));
    in_flight_.pop_front();
  }
  hooks_.on_durable(std::move(outcome), std::move(changes),
                    archives);  // before replies are sent: a client that then opens a stream finds the events
  gate_.release(durable_);
}

void Commits::on_failure(const journal::BatchOutcome& outcome) {
  const bool unknown = outcome.kind == journal::BatchOutcome::Kind::outcome_unknown;
  const bool first_failure = !failed();
  Problem problem = outcome.problem;
  if (unknown) {
    problem.code = Code::outcome_unknown;
    problem.retry_after_s = 1;
  }
  failure_ = std::make_shared<const Problem>(std::move(problem));
  refused_at_ = store::steady_ms();
  refusal_ = failure_->detail;
  if (first_failure) {
    log::error("batch_not_stored", {{"first", outcome.first},
                                    {"last", outcome.last},
                                    {"unknown", unknown ? "yes" : "no"},
                                    {"error", failure_->detail}});
  }
  while (!in_flight_.empty() && in_flight_.front().last <= outcome.last) {
    touched_by_failure_.push_back(in_flight_.front().agent);
    in_flight_.pop_front();
  }
  gate_.fail(outcome.first, failure_);
  if (first_failure) env_.background.run(rebuild(), "rebuild");
}

void Commits::reload_after_failure(const std::string& agent) {
  assert(failed());
  touched_by_failure_.push_back(agent);
}

// Goes back to what is durable: forgets what failed, and has the agents that it touched read again.
asio::awaitable<void> Commits::rebuild() {
  asio::steady_timer pause(env_.io);
  for (;;) {
    while (!in_flight_.empty()) {  // the journal reports every batch that waits
      pause.expires_after(std::chrono::milliseconds(2));
      co_await pause.async_wait(asio::use_awaitable);
    }
    const auto resumed = co_await runtime::run_on(env_.disk.get_executor(), [this] { return journal_->resume(); });
    if (resumed) break;
    log::error("journal_unwritable", {{"error", resumed.error().detail}, {"next", "trying again in 1 s"}});
    rebuilt_.release(0);  // reads that wait answer with the reason
    if (env_.stopping) co_return;
    pause.expires_after(std::chrono::seconds(1));
    co_await pause.async_wait(asio::use_awaitable);
  }
  std::set<std::string> touched;
  while (!touched_by_failure_.empty()) {  // it may grow while we wait
    std::string id = std::move(touched_by_failure_.back());
    touched_by_failure_.pop_back();
    if (co_await hooks_.forget(id)) touched.insert(std::move(id));
  }
  next_seq_ = journal_->head() + 1;
  failure_ = nullptr;
  rebuilt_.release(0);
  log::info("journal_writable", {{"head", next_seq_ - 1}});
  co_await hooks_.reload(std::move(touched));
}

std::string Commits::refusal() const {
  if (failed() || (refused_at_ != 0 && store::steady_ms() - refused_at_ < refusal_told_ms)) return refusal_;
  return {};
}

}  // namespace sessiond::ledger
