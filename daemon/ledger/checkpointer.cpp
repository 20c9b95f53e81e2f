#include "daemon/ledger/checkpointer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cassert>
#include <optional>

#include "daemon/ledger/book_files.hpp"
#include "daemon/ledger/dirty_entry.hpp"
#include "daemon/runtime/log.hpp"
#include "daemon/runtime/run_on.hpp"
#include "store/fault_point.hpp"
#include "store/files.hpp"
#include "store/json/crc.hpp"
#include "store/sessions/disk.hpp"
#include "store/try.hpp"

namespace sessiond::ledger {
namespace {

constexpr std::int64_t least_pause_ms = 100;        // between two checkpoints of an agent
constexpr std::int64_t least_sync_pause_ms = 1000;  // between two of CHECKPOINT: recovery then replays a second
constexpr std::int64_t checkpoint_retry_ms = 1000;
constexpr std::int64_t longest_rewrite_pause_ms = 8000;
constexpr std::int64_t last_lock_wait_ms = 1000;      // while stopping; the journal holds what is not written
constexpr std::size_t collected_at_once = 256;        // dirty entries: under 1 ms
constexpr std::uint64_t hurry_backlog = 24ULL << 20;  // of journal beyond CHECKPOINT: the duty cycle counts no more

std::int64_t pause_for(std::chrono::nanoseconds took, double duty) {
  const double ms = std::chrono::duration<double, std::milli>(took).count();
  return std::max(least_pause_ms, static_cast<std::int64_t>(ms * (1.0 / std::max(duty, 0.001) - 1.0)));
}

// Collects in slices: the entries of 100 000 dirty sessions take a quarter of a second, and the loop has other requests
// to serve. An entry that changes meanwhile is dirty again, and recovery compares each entry's rev.
asio::awaitable<std::vector<DirtyEntry>> collect(asio::io_context& io, decide::AgentState& state,
                                                 const std::unordered_set<std::string>& keys) {
  std::vector<DirtyEntry> dirty;
  dirty.reserve(keys.size());
  for (const std::string& key : keys) {
    dirty.push_back(dirty_entry(state, key));
    if (dirty.size() % collected_at_once == 0) co_await asio::post(io, asio::use_awaitable);
  }
  co_return dirty;
}

// Takes the books in slices, for the same reason. They are as the agent is at the end: what changes meanwhile is taken,
// too.
asio::awaitable<ChangedBooks> collect_books(asio::io_context& io, decide::AgentState& state) {
  ChangedBooks books;
  while (!take_changed_books(state, books)) co_await asio::post(io, asio::use_awaitable);
  co_return books;
}

// Returns whether lines of the agent's transcripts, or of files beside them, wait for their files.
bool holds_lines(const TranscriptFlusher& flusher, const Paths& paths, const std::string& agent) {
  return flusher.is_locked(paths.sessions_dir(agent)) ||
         std::ranges::any_of(folders_beside, [&](std::string_view folder) {
           return flusher.is_locked(dir_beside(paths, agent, folder));
         });
}

}  // namespace

Checkpointer::Checkpointer(LedgerEnv& env, Commits& commits, Notices& notices, Agents& agents,
                           TranscriptFlusher& flusher, const journal::FileJournal& journal_files)
    : env_(env),
      commits_(commits),
      notices_(notices),
      agents_(agents),
      flusher_(flusher),
      journal_files_(journal_files),
      strand_(asio::make_strand(env.disk.get_executor())),
      timer_(env.io),
      last_sessions_(env, commits, agents),
      backlog_(env, commits, trouble_) {}

std::uint64_t Checkpointer::archived_from(const std::string& agent) const {
  return (holds_lines(flusher_, env_.paths, agent) ? checkpointed_ : synced_) + 1;
}

asio::awaitable<Result<void>> Checkpointer::checkpoint(std::string id) {
  assert(env_.loop.is_current());
  Agent& agent = agents_.find_or_add(id);
  std::optional<TurnGuard> turn(co_await agents_.take_turn(id, Turn::checkpointing));
  while (agent.rebuild) {
    turn.reset();
    // Durable changes may be in the journal only: the agent is read again before it can count as clean.
    if (auto loaded = co_await agents_.load(id, true); !loaded) {
      on_checkpoint_failed(agent, loaded.error());
      co_return loaded;
    }
    turn.emplace(co_await agents_.take_turn(id, Turn::checkpointing));
  }
  if (agent.lent && agent.state && agent.state->is_dirty()) {
    const Problem lent{
        .code = Code::lock_timeout, .detail = fmt::format("the lock of {} is lent", id), .retry_after_s = 1};
    on_checkpoint_failed(agent, lent);
    co_return std::unexpected(lent);
  }
  if (!agent.state || !agent.state->is_dirty()) {
    agent.checkpoint.dirty_since = 0;
    agent.checkpoint.succeeded();  // a batch that failed may have left trouble behind
    agent.reached.store = std::max(agent.reached.store, commits_.durable());  // in memory or not
    co_return Result<void>{};
  }
  const auto state = agent.state;
  const std::unordered_set<std::string> taken = std::exchange(state->dirty, {});
  const std::unordered_set<std::string> taken_of_ours = std::exchange(state->changed_by_us, {});
  const std::int64_t since = std::exchange(agent.checkpoint.dirty_since, 0);
  // The file will hold this agent's changes up to `seq`. Not commits_.last(): other agents' events may be in flight,
  // and if their batch fails those numbers are assigned again.
  const std::uint64_t seq = std::max(commits_.durable(), state->last_seq);
  auto dirty = co_await collect(env_.io, *state, taken);
  ChangedBooks books = co_await collect_books(env_.io, *state);
  BooksOnDisk on_disk = agent.reached.books;
  note_written(on_disk, books);
  Result<void> outcome = co_await commits_.wait_until_durable(state->last_seq);
  std::optional<sessions::ForeignChange> foreign;
  if (outcome) {
    auto [written, evictions, repairs, again, unwritten] =
        co_await runtime::run_on(agent.strand, [file = agent.file, logs = agent.logs, dirty = std::move(dirty),
                                                dir = env_.paths.root() / env_.paths.sessions_dir(id),
                                                books = std::move(books), id, &paths = env_.paths]() mutable {
          auto made = store::make_dirs(dir);
          Result<sessions::CheckpointResult> done =
              made ? file->checkpoint_if_free(in_order(std::move(dirty))) : std::unexpected(std::move(made.error()));
          if (done && !done->foreign)
            if (auto kept = write_books(paths, id, *logs, books); !kept) done = std::unexpected(kept.error());
          if (done && !done->foreign) books = {};
          return std::tuple(std::move(done), file->take_evictions(), file->take_repairs(), file->look_again_in(),
                            std::move(books));
        });
    books = std::move(unwritten);
    agents_.look_again(agent, again);
    notices_.evicted(id, evictions);
    notices_.repaired(id, repairs);
    if (written) {
      foreign = std::move(written->foreign);
      agent.bytes = written->bytes;
      agent.checkpoint.next = store::steady_ms() + pause_for(written->took, env_.config.store.checkpoint_duty);
    } else {
      outcome = std::unexpected(std::move(written.error()));
    }
  }
  if (outcome && !foreign) {
    ++checkpoints_;
    hooks_.on_written(agent);  // its folder may be new
    agent.reached.previous = std::exchange(agent.reached.store, seq);
    agent.reached.ours = seq;
    agent.reached.books = on_disk;
    agent.checkpoint.succeeded();
    note_usable(agent);
    const bool is_unfinished = note_unfinished(*state, *agent.logs);
    std::int64_t& pause = agent.checkpoint.rewrite_pause;
    pause = is_unfinished ? std::clamp(2 * pause, checkpoint_retry_ms, longest_rewrite_pause_ms) : 0;
    if (is_unfinished) {
      agents_.mark_dirty(agent);
      agent.checkpoint.next = std::max(agent.checkpoint.next, store::steady_ms() + pause);
      agent.checkpoint.trouble = "the log of its runs or of its deliveries cannot be written anew";
      if (pause == checkpoint_retry_ms)
        log::warn("book_not_compacted", {{"agent", id}, {"next", "trying again: look at the free space"}});
    }
  } else {
    state->dirty.insert(taken.begin(), taken.end());
    state->changed_by_us.insert(taken_of_ours.begin(), taken_of_ours.end());
    while (!give_back(*state, books, *agent.logs)) co_await asio::post(env_.io, asio::use_awaitable);
    if (agent.checkpoint.dirty_since == 0 || since < agent.checkpoint.dirty_since) agent.checkpoint.dirty_since = since;
    if (!outcome) on_checkpoint_failed(agent, outcome.error());
  }
  // Merged before the file is written again: a checkpoint writes whole entries and would undo the foreign change.
  if (foreign) outcome = co_await agents_.merge_foreign(id, std::move(*foreign));
  turn.reset();
  if (foreign && outcome) co_return co_await checkpoint(id);
  co_return outcome;
}

// Asks for a foreign lock again soon, and reports it when it cannot be had within store.lock.timeoutMs.
void Checkpointer::on_checkpoint_failed(Agent& agent, const Problem& why) {
  const std::int64_t now = store::steady_ms();
  agent.checkpoint.next = now + checkpoint_retry_ms;
  if (why.code == Code::lock_timeout) {
    if (agent.checkpoint.lock_wanted == 0) agent.checkpoint.lock_wanted = now;
    agent.checkpoint.next = now + env_.lock_poll_ms();
    if (agent.lent) return;  // no failure: it ends by itself
    if (now - agent.checkpoint.lock_wanted < env_.config.store.lock.timeout_ms) return;
  }
  if (why.code == Code::starting) return;                  // the agent is not loaded yet, and is looked at again
  if (why.code == Code::degraded && !commits_.failed()) {  // something that is no store stands in its place
    if (agent.degraded.empty()) agents_.degrade(agent, why);
    return;
  }
  if (agent.checkpoint.trouble.empty())
    log::error("checkpoint_failed", {{"agent", agent.id}, {"error", why.detail}, {"next", "trying again"}});
  agent.checkpoint.trouble = why.detail;
}

asio::awaitable<Result<void>> Checkpointer::write_until(std::string id, std::uint64_t seq,
                                                        std::optional<std::int64_t> patience_ms) {
  const std::int64_t deadline =
      store::steady_ms() +
      (env_.stopping ? last_lock_wait_ms : patience_ms.value_or(env_.config.store.lock.timeout_ms));
  asio::steady_timer pause(env_.io);
  const LockWaiter waits(env_.lock_waiters, env_.paths.store_file(id));
  Result<void> written;
  while (agents_.find_or_add(id).reached.store < seq) {
    written = co_await checkpoint(id);
    if (written) continue;
    const bool late =
        store::steady_ms() >= deadline && !(agents_.find_or_add(id).lent && !env_.stopping && !patience_ms);
    if (written.error().code != Code::lock_timeout || late || (env_.draining && !env_.stopping)) break;
    pause.expires_after(std::chrono::milliseconds(env_.lock_poll_ms()));
    co_await pause.async_wait(asio::use_awaitable);
  }
  co_return agents_.find_or_add(id).reached.store < seq ? written
                                                        : Result<void>{};  // the loop may have written it meanwhile
}

asio::awaitable<Result<void>> Checkpointer::hold(std::string id) {
  const std::int64_t deadline = store::steady_ms() + env_.config.store.lock.timeout_ms;
  asio::steady_timer pause(env_.io);
  const LockWaiter waits(env_.lock_waiters, env_.paths.store_file(id));
  for (;;) {
    CO_TRY(co_await agents_.load(id, false));
    auto turn = std::make_optional(co_await agents_.take_turn(id, Turn::looking));
    Agent& agent = agents_.find_or_add(id);
    if (!agent.file) co_return fail(Code::degraded, fmt::format("the store of {} is not read yet", id));
    auto [held, evictions] = co_await runtime::run_on(agent.strand, [file = agent.file] {
      auto taken = file->hold_if_free();
      return std::pair(std::move(taken), file->take_evictions());
    });
    notices_.evicted(id, evictions);
    turn.reset();
    if (held) break;
    if (held.error().code != Code::lock_timeout || store::steady_ms() >= deadline || env_.draining) co_return held;
    pause.expires_after(std::chrono::milliseconds(env_.lock_poll_ms()));
    co_await pause.async_wait(asio::use_awaitable);
  }
  auto merged = co_await agents_.reload_if_changed(id);
  if (!merged) co_await let_go(id);
  co_return merged;
}

asio::awaitable<void> Checkpointer::let_go(std::string id) {
  Agent& agent = agents_.find_or_add(id);
  if (!agent.file) co_return;  // read anew meanwhile, which lets go of it
  co_await runtime::run_on(agent.strand, [file = agent.file] {
    file->let_go();
    return true;
  });
}

asio::awaitable<Result<void>> Checkpointer::sync_files() {
  auto synced = co_await advance();
  if (!synced && trouble_.empty())
    log::error("sync_failed", {{"error", synced.error().detail}, {"next", "trying again"}});
  trouble_ = synced ? "" : synced.error().detail;
  co_return synced;
}

// Brings transcripts and answers to disk, then writes CHECKPOINT, then lets the journal drop what is older.
asio::awaitable<Result<void>> Checkpointer::advance() {
  co_await renew_resting();
  const std::uint64_t seq = commits_.durable();
  const auto begin = std::chrono::steady_clock::now();
  static_cast<void>(co_await last_sessions_.follow());  // what never became durable keeps nothing back
  CO_TRY(co_await flusher_.sync());
  json::ObjectWriter writer;
  writer.string("epoch", commits_.journal().epoch());
  writer.integer("seq", static_cast<std::int64_t>(seq));
  std::string agents = "{";
  std::string previous = "{";
  std::string own = "{";
  std::uint64_t least = seq;
  std::uint64_t least_free = seq;  // of agents that no foreign lock or fault keeps back
  std::uint64_t least_previous = seq;
  for (const auto& [id, agent] : agents_.all()) {
    if (!agent->state && !agent->file && agent->reached.store == 0 && !agent->rebuild) continue;  // never loaded
    const bool clean = agent->is_clean();
    if (clean) agent->reached.store = std::max(agent->reached.store, seq);
    const bool held = holds_lines(flusher_, env_.paths, id);
    // An agent without sessions is not named, so that its folder may be removed without counting as damage. It is named
    // while renames of its files wait for a lock, because recovery must do those.
    if (clean && !held && (agent->state ? agent->state->size() == 0 : agent->empty)) continue;
    if (!held) {
      agent->reached.lines = seq;
    } else if (agent->reached.lines == 0) {
      agent->reached.lines = synced_;
    }
    const std::uint64_t reached = std::min({agent->reached.store, agent->reached.lines, seq});
    least = std::min(least, reached);
    // Other agents' writers do not wait for an agent that cannot be written; the journal keeps what that agent needs.
    const bool stuck = held || agent->checkpoint.is_held_back() || !agent->degraded.empty();
    if (!stuck) least_free = std::min(least_free, reached);
    least_previous = std::min(least_previous, agent->reached.previous);
    agents += fmt::format("{}{}:{}", agents.size() > 1 ? "," : "", json::quote(id), reached);
    previous += fmt::format("{}{}:{}", previous.size() > 1 ? "," : "", json::quote(id), agent->reached.previous);
    own += fmt::format("{}{}:{}", own.size() > 1 ? "," : "", json::quote(id), agent->reached.ours);
  }
  writer.raw("agents", agents + "}");
  writer.raw("previous", previous + "}");
  writer.raw("written", own + "}");
  put_books_on_disk(writer, agents_);
  auto written =
      co_await runtime::run_on(strand_, [this, json = json::with_crc(writer.text()) + "\n"]() -> Result<void> {
        TRY(commits_.answers().flush(true));
        store::fault_point("marks.answers_synced");
        commits_.answers().expire(commits_.clock().now());
        auto kept = store::replace_file(env_.paths.journal_dir() / "CHECKPOINT", json);
        store::fault_point("marks.written");
        return kept;
      });
  if (!written) co_return written;
  synced_ = seq;
  checkpointed_ = least;
  backlog_.advance_to(least_free);
  if (snapshots_ == 0) {
    co_await runtime::run_on(env_.disk.get_executor(), [this, to = std::min(least, least_previous)] {
      commits_.journal().release(
          to, commits_.clock().older_than(env_.config.journal.retention_ms, commits_.journal().head()));
      return true;
    });
  }
  next_sync_ = store::steady_ms() + std::max(least_sync_pause_ms, pause_for(std::chrono::steady_clock::now() - begin,
                                                                            env_.config.store.checkpoint_duty));
  co_return Result<void>{};
}

// Copies the file of an agent that rests over its previous generation. Else the journal would have to be kept since
// that generation.
asio::awaitable<void> Checkpointer::renew_resting() {
  std::vector<std::shared_ptr<Agent>> resting;
  for (const auto& [id, agent] : agents_.all()) {
    const bool clean = agent->is_clean() && agent->reached.store != 0;
    if (clean && commits_.journal().bytes_after(agent->reached.previous) > env_.config.journal.max_bytes / 2)
      resting.push_back(agent);
  }
  for (const auto& agent : resting) {
    const std::uint64_t seq = agent->reached.store;
    const auto done = co_await runtime::run_on(
        agent->strand,
        [store = env_.paths.store_file(agent->id), previous = env_.paths.previous(agent->id)]() -> Result<void> {
          TRY(auto read, sessions::read_store(store));
          if (read.kind == sessions::StoreRead::Kind::absent) return {};
          if (read.kind == sessions::StoreRead::Kind::damaged)
            return fail(Code::degraded, "the store is damaged: " + read.damage);
          return store::replace_file(previous, sessions::format_store(read.entries));
        });
    store::fault_point("marks.previous_renewed");
    if (done) {
      agent->reached.previous = seq;
    } else {
      log::warn("previous_not_renewed", {{"agent", agent->id}, {"error", done.error().detail}});
    }
  }
}

asio::awaitable<void> Checkpointer::run() {
  while (!env_.stopping) {
    const std::int64_t now = store::steady_ms();
    std::int64_t next = now + 1000;
    const bool hurry = commits_.journal().bytes_after(backlog_.from()) > hurry_backlog;
    std::vector<std::string> due;
    for (const auto& [id, agent] : agents_.all()) {
      if (agent->checkpoint.dirty_since == 0) continue;
      const bool waits = agent->checkpoint.is_held_back() || !agent->degraded.empty();
      if (agent->checkpoint.next <= now || (hurry && !waits)) {
        due.push_back(id);
      } else {
        next = std::min(next, agent->checkpoint.next);
      }
    }
    if (!commits_.failed()) {
      for (const std::string& id : due) co_await checkpoint(id);  // a failure is told and tried again
      if (commits_.durable() > checkpointed_ && (hurry || store::steady_ms() >= next_sync_)) {
        if (auto synced = co_await sync_files(); !synced) next_sync_ = store::steady_ms() + checkpoint_retry_ms;
      }
      if (commits_.durable() > checkpointed_) next = std::min(next, next_sync_);
    }
    hooks_.on_round();
    if (!due.empty() && !commits_.failed()) continue;  // what became dirty meanwhile is looked at before sleeping
    boost::system::error_code woken;
    timer_.expires_after(std::chrono::milliseconds(std::max<std::int64_t>(next - store::steady_ms(), 1)));
    co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, woken));
  }
}

asio::awaitable<Result<void>> Checkpointer::write_all() {
  std::vector<std::string> ids;
  for (const auto& [id, agent] : agents_.all()) {
    if (agent->state) ids.push_back(id);
  }
  const std::uint64_t seq = commits_.last();
  CO_TRY(co_await commits_.wait_until_durable(seq));
  Result<void> first;
  for (const std::string& id : ids) {
    if (auto written = co_await write_until(id, seq); !written && first) first = std::move(written);
  }
  auto synced = co_await sync_files();
  co_return first ? synced : first;
}

}  // namespace sessiond::ledger
