// The part of the ledger that writes sessions.json, as often as its duty cycle allows, and CHECKPOINT, which says how
// far the files have come.
#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <random>

#include "daemon/ledger/agent.hpp"
#include "daemon/ledger/ledger.hpp"
#include "daemon/runtime/hop.hpp"
#include "daemon/runtime/log.hpp"
#include "store/clock.hpp"
#include "store/fault_point.hpp"
#include "store/files.hpp"
#include "store/json/crc.hpp"
#include "store/sessions/disk.hpp"

namespace sessiond {
namespace {

constexpr std::int64_t least_pause_ms = 100;        // between two checkpoints of an agent
constexpr std::int64_t least_sync_pause_ms = 1000;  // between two of CHECKPOINT: recovery then replays a second
constexpr std::int64_t checkpoint_retry_ms = 1000;
constexpr std::int64_t last_lock_wait_ms = 1000;      // at the end; the journal has what a held lock keeps back
constexpr std::size_t collected_at_once = 256;        // dirty entries: under 1 ms
constexpr std::uint64_t hurry_backlog = 24ULL << 20;  // of journal beyond CHECKPOINT: the duty cycle counts no more

std::int64_t pause_for(std::chrono::nanoseconds took, double duty) {
  const double ms = std::chrono::duration<double, std::milli>(took).count();
  return std::max(least_pause_ms, static_cast<std::int64_t>(ms * (1.0 / std::max(duty, 0.001) - 1.0)));
}

}  // namespace

DirtyEntry dirty_entry(AgentState& state, const std::string& key) {
  const Session* session = state.mutable_session(key);
  if (session == nullptr) return {.order = 0, .entry = {.key = key, .entry = nullptr}};
  return {.order = session->order + 1, .entry = {.key = key, .entry = session->entry()}};
}

std::vector<NamedEntry> in_order(std::vector<DirtyEntry> dirty) {
  std::ranges::sort(dirty, {}, &DirtyEntry::order);
  std::vector<NamedEntry> entries;
  entries.reserve(dirty.size());
  for (DirtyEntry& one : dirty) entries.push_back(std::move(one.entry));
  return entries;
}

// A few at a time: of 100 000 dirty sessions the entries take a quarter of a second to make, and the network thread has
// others to serve. What changes meanwhile may be in it or not: it is dirty again, and recovery goes by each entry's
// rev.
asio::awaitable<std::vector<DirtyEntry>> Ledger::collect(AgentState& state, const Keys& keys) {
  std::vector<DirtyEntry> dirty;
  dirty.reserve(keys.size());
  for (const std::string& key : keys) {
    dirty.push_back(dirty_entry(state, key));
    if (dirty.size() % collected_at_once == 0) co_await asio::post(io_, asio::use_awaitable);
  }
  co_return dirty;
}

asio::awaitable<Result<void>> Ledger::checkpoint(std::string id) {
  Agent& agent = slot(id);
  for (;;) {
    while (agent.checkpointing || agent.looking || agent.loading) co_await agent.waiting.wait(0);
    if (!agent.rebuild) break;
    // Durable changes may be in the journal only: read again, never called clean.
    if (auto loaded = co_await ensure_loaded(id, true); !loaded) {
      not_written(agent, loaded.error());
      co_return loaded;
    }
  }
  if (!agent.state || agent.state->dirty.empty()) {
    agent.dirty_since = 0;
    agent.lock_wanted = 0;
    agent.trouble.clear();                                // of a batch that was not stored in the end
    agent.file_seq = std::max(agent.file_seq, durable_);  // the file has all that is durable, in memory or not
    co_return Result<void>{};
  }
  agent.checkpointing = true;
  const auto state = agent.state;
  const Keys taken = std::exchange(state->dirty, {});
  const Keys taken_of_ours = std::exchange(state->changed_by_us, {});
  const std::int64_t since = std::exchange(agent.dirty_since, 0);
  // All of this agent's, and nothing of others that is still in flight: if that fails, its seqs are given again.
  const std::uint64_t seq = std::max(durable_, state->last_seq);
  auto dirty = co_await collect(*state, taken);
  Result<void> outcome = co_await settled(state->last_seq);
  std::optional<ForeignChange> foreign;
  if (outcome) {
    auto [written, evictions, repairs] = co_await hop(
        agent.turn,
        [file = agent.file, dirty = std::move(dirty), dir = paths_.state_dir() / paths_.sessions_dir(id)]() mutable {
          auto made = make_dirs(dir);
          Result<CheckpointResult> done =
              made ? file->checkpoint_if_free(in_order(std::move(dirty))) : std::unexpected(std::move(made.error()));
          return std::tuple(std::move(done), file->take_evictions(), file->take_repairs());
        });
    tell_evictions(id, evictions);
    tell_repairs(id, repairs);
    if (written) {
      foreign = std::move(written->foreign);
      agent.bytes = written->bytes;
      agent.next_checkpoint = steady_ms() + pause_for(written->took, config_.store.checkpoint_duty);
    } else {
      outcome = std::unexpected(std::move(written.error()));
    }
  }
  if (outcome && !foreign) {
    ++counters_.checkpoints;
    watch(agent);  // its folder may be new
    agent.previous_seq = std::exchange(agent.file_seq, seq);
    agent.written_seq = seq;
    agent.trouble.clear();
    mended(agent);
    agent.lock_wanted = 0;
  } else {
    state->dirty.insert(taken.begin(), taken.end());
    state->changed_by_us.insert(taken_of_ours.begin(), taken_of_ours.end());
    if (agent.dirty_since == 0 || since < agent.dirty_since) agent.dirty_since = since;
    if (!outcome) not_written(agent, outcome.error());
  }
  // Merged before anybody writes the file again: what is written is whole entries, theirs included.
  if (foreign) outcome = co_await commit_external(id, std::move(*foreign));
  agent.checkpointing = false;
  agent.waiting.release(0);
  if (foreign && outcome) co_return co_await checkpoint(id);
  co_return outcome;
}

// A lock is asked for again soon, and is trouble when it cannot be had within its timeout.
void Ledger::not_written(Agent& agent, const Problem& why) {
  const std::int64_t now = steady_ms();
  agent.next_checkpoint = now + checkpoint_retry_ms;
  if (why.code == Code::lock_timeout) {
    if (agent.lock_wanted == 0) agent.lock_wanted = now;
    agent.next_checkpoint = now + lock_poll_ms();
    if (now - agent.lock_wanted < config_.store.lock.timeout_ms) return;
  }
  if (why.code == Code::degraded && !failed_) {  // something else stands where its store should
    if (agent.degraded.empty()) degrade(agent, why);
    return;
  }
  if (agent.trouble.empty())
    log::error("checkpoint_failed", {{"agent", agent.id}, {"error", why.detail}, {"next", "trying again"}});
  agent.trouble = why.detail;
}

// With jitter, so that two who want the same lock do not meet at it again and again.
std::int64_t Ledger::lock_poll_ms() {
  const std::int64_t interval = std::max<std::int64_t>(config_.store.lock.poll_interval_ms, 2);
  return std::uniform_int_distribution<std::int64_t>(interval / 2, interval + interval / 2)(jitter_);
}

asio::awaitable<Result<void>> Ledger::write_store(std::string id, std::uint64_t seq) {
  const std::int64_t deadline = steady_ms() + (stopping_ ? last_lock_wait_ms : config_.store.lock.timeout_ms);
  const std::string target = paths_.store_file(id);
  asio::steady_timer pause(io_);
  Result<void> written;
  ++lock_waiters_[target];
  while (slot(id).file_seq < seq) {
    written = co_await checkpoint(id);
    if (written) continue;
    if (written.error().code != Code::lock_timeout || steady_ms() >= deadline || (draining_ && !stopping_)) break;
    pause.expires_after(std::chrono::milliseconds(lock_poll_ms()));
    co_await pause.async_wait(asio::use_awaitable);
  }
  if (--lock_waiters_[target] == 0) lock_waiters_.erase(target);
  co_return slot(id).file_seq < seq ? written : Result<void>{};  // the loop may have written it meanwhile
}

asio::awaitable<Result<void>> Ledger::sync_files() {
  auto synced = co_await advance_checkpoint();
  if (!synced && sync_trouble_.empty())
    log::error("sync_failed", {{"error", synced.error().detail}, {"next", "trying again"}});
  sync_trouble_ = synced ? "" : synced.error().detail;
  co_return synced;
}

// Transcripts and answers to disk, then CHECKPOINT; the journal may let go of what is older.
asio::awaitable<Result<void>> Ledger::advance_checkpoint() {
  co_await renew_resting();
  const std::uint64_t seq = durable_;
  const auto begin = std::chrono::steady_clock::now();
  hand_over();
  auto synced = co_await hop(files_, [this]() -> Result<HeldFiles> {
    if (auto flushed = flush_now({}); !flushed) return std::unexpected(std::move(flushed.error()));
    if (auto done = projection_.sync(); !done) return std::unexpected(std::move(done.error()));
    fault_point("marks.files_synced");
    return held_files();
  });
  if (!synced) co_return std::unexpected(std::move(synced.error()));
  note_held(*synced);
  if (!held_.empty()) schedule_flush();
  std::string json;
  json::ObjectWriter writer(json);
  writer.string("epoch", epoch_);
  writer.integer("seq", static_cast<std::int64_t>(seq));
  std::string agents = "{";
  std::string previous = "{";
  std::string own = "{";
  std::uint64_t least = seq;
  std::uint64_t least_free = seq;  // of those whom no other program's lock keeps back
  std::uint64_t least_previous = seq;
  for (const auto& [id, agent] : agents_) {
    if (!agent->state && !agent->file && agent->file_seq == 0 && !agent->rebuild) continue;  // never loaded
    const bool clean =
        !agent->rebuild && !agent->loading && (!agent->state || (agent->state->dirty.empty() && !agent->checkpointing));
    if (clean) agent->file_seq = std::max(agent->file_seq, seq);
    const bool held = any_held(paths_.sessions_dir(id));
    // An agent without sessions is not named: its folder may go one day without being damage. Unless renames of its
    // files still wait for a lock: recovery must do those.
    if (clean && !held && (agent->state ? agent->state->size() == 0 : agent->empty)) continue;
    if (!held) {
      agent->lines_seq = seq;
    } else if (agent->lines_seq == 0) {
      agent->lines_seq = synced_;
    }
    const std::uint64_t reached = std::min({agent->file_seq, agent->lines_seq, seq});
    least = std::min(least, reached);
    // Writers of other agents do not wait for an agent that cannot be written. The journal keeps what it still needs.
    const bool stuck = agent->lock_wanted != 0 || held || !agent->trouble.empty() || !agent->degraded.empty();
    if (!stuck) least_free = std::min(least_free, reached);
    least_previous = std::min(least_previous, agent->previous_seq);
    agents += fmt::format("{}{}:{}", agents.size() > 1 ? "," : "", json::quote(id), reached);
    previous += fmt::format("{}{}:{}", previous.size() > 1 ? "," : "", json::quote(id), agent->previous_seq);
    own += fmt::format("{}{}:{}", own.size() > 1 ? "," : "", json::quote(id), agent->written_seq);
  }
  writer.raw("agents", agents + "}");
  writer.raw("previous", previous + "}");
  writer.raw("written", own + "}");
  writer.close();
  auto written = co_await hop(marks_, [this, json = with_crc(std::move(json)) + "\n"] {
    if (auto kept = answers_->flush(true); !kept) return kept;
    fault_point("marks.answers_synced");
    answers_->expire(clock_->now());
    auto kept = replace_file(paths_.journal_dir() / "CHECKPOINT", json);
    fault_point("marks.written");
    return kept;
  });
  if (!written) co_return written;
  synced_ = seq;
  checkpointed_ = least;
  backlog_from_ = least_free;
  backlog_ = journal_->bytes_after(backlog_from_);
  if (cuts_ == 0) {
    co_await hop(disk_.get_executor(), [this, to = std::min(least, least_previous)] {
      journal_->release(to, clock_->older_than(config_.journal.retention_ms, journal_->head()));
      return true;
    });
  }
  room_.release(UINT64_MAX);  // each looks for itself whether there is room now
  next_sync_ = steady_ms() + std::max(least_sync_pause_ms, pause_for(std::chrono::steady_clock::now() - begin,
                                                                     config_.store.checkpoint_duty));
  co_return Result<void>{};
}

// The generation before the last of an agent that rests would keep the journal since then: what the file holds now
// takes its place.
asio::awaitable<void> Ledger::renew_resting() {
  std::vector<std::shared_ptr<Agent>> resting;
  for (const auto& [id, agent] : agents_) {
    const bool clean = !agent->rebuild && !agent->loading && agent->file_seq != 0 &&
                       (!agent->state || (agent->state->dirty.empty() && !agent->checkpointing));
    if (clean && journal_->bytes_after(agent->previous_seq) > config_.journal.max_bytes / 2) resting.push_back(agent);
  }
  for (const auto& agent : resting) {
    const std::uint64_t seq = agent->file_seq;
    const auto done = co_await hop(
        agent->turn, [store = paths_.store_file(agent->id), previous = paths_.previous(agent->id)]() -> Result<void> {
          auto read = read_store(store);
          if (!read) return std::unexpected(std::move(read.error()));
          if (read->kind == StoreRead::Kind::absent) return {};
          if (read->kind == StoreRead::Kind::damaged)
            return fail(Code::degraded, "the store is damaged: " + read->damage);
          return replace_file(previous, format_store(read->entries));
        });
    fault_point("marks.previous_renewed");
    if (done) {
      agent->previous_seq = seq;
    } else {
      log::warn("previous_not_renewed", {{"agent", agent->id}, {"error", done.error().detail}});
    }
  }
}

asio::awaitable<void> Ledger::checkpoint_loop() {
  while (!stopping_) {
    const std::int64_t now = steady_ms();
    std::int64_t next = now + 1000;
    const bool hurry = journal_->bytes_after(backlog_from_) > hurry_backlog;
    std::vector<std::string> due;
    for (const auto& [id, agent] : agents_) {
      if (agent->dirty_since == 0) continue;
      const bool waits = agent->lock_wanted != 0 || !agent->trouble.empty() || !agent->degraded.empty();
      if (agent->next_checkpoint <= now || (hurry && !waits)) {
        due.push_back(id);
      } else {
        next = std::min(next, agent->next_checkpoint);
      }
    }
    if (!failed_) {
      for (const std::string& id : due) co_await checkpoint(id);  // a failure is told and tried again
      if (durable_ > checkpointed_ && (hurry || steady_ms() >= next_sync_)) {
        if (auto synced = co_await sync_files(); !synced) next_sync_ = steady_ms() + checkpoint_retry_ms;
      }
      if (durable_ > checkpointed_) next = std::min(next, next_sync_);
    }
    if (next_look_ <= now) {  // the first time: at what others did while we were down
      next_look_ = now + ttl_ms();
      in_background(look_everywhere(), "look_everywhere");
    }
    evict_idle();
    if (!due.empty() && !failed_) continue;  // what became dirty meanwhile is looked at before sleeping
    boost::system::error_code woken;
    checkpoint_timer_.expires_after(std::chrono::milliseconds(std::max<std::int64_t>(next - steady_ms(), 1)));
    co_await checkpoint_timer_.async_wait(asio::redirect_error(asio::use_awaitable, woken));
  }
}

asio::awaitable<Result<void>> Ledger::checkpoint_all() {
  std::vector<std::string> ids;
  for (const auto& [id, agent] : agents_) {
    if (agent->state) ids.push_back(id);
  }
  const std::uint64_t seq = next_seq_ - 1;
  if (auto fine = co_await settled(seq); !fine) co_return fine;
  Result<void> first;
  for (const std::string& id : ids) {
    if (auto written = co_await write_store(id, seq); !written && first) first = std::move(written);
  }
  auto synced = co_await sync_files();
  co_return first ? synced : first;
}

asio::awaitable<Result<std::shared_ptr<StateCut>>> Ledger::cut() {
  // So that the files alone say nearly all; without it the cut is as good, its replay longer.
  if (auto done = co_await checkpoint_all(); !done)
    log::warn("backup_without_checkpoint", {{"error", done.error().detail}, {"next", "the journal in it has it all"}});
  ++cuts_;
  const auto cut = std::make_shared<StateCut>();
  Result<void> taken = co_await hop(marks_, [this, cut]() -> Result<void> {
    auto links = LinkDir::make(paths_.journal_dir());
    if (!links) return std::unexpected(std::move(links.error()));
    cut->links = std::move(*links);
    return take_stores(*cut, paths_);
  });
  for (const std::string& agent : co_await agent_ids()) {
    if (taken) taken = co_await hop(files_, [this, cut, agent] { return take_transcripts(*cut, paths_, agent); });
  }
  if (taken) taken = co_await hop(disk_.get_executor(), [this, cut] { return take_journal(*cut, journal_files_); });
  --cuts_;
  if (taken) co_return cut;
  co_await hop(disk_.get_executor(), [cut] {
    cut->links.reset();
    return true;
  });
  co_return std::unexpected(std::move(taken.error()));
}

void Ledger::drain() {
  draining_ = true;
  room_.fail(0,
             std::make_shared<const Problem>(Problem{.code = Code::draining, .detail = "the daemon is shutting down"}));
}

asio::awaitable<void> Ledger::stop() {
  stopping_ = true;
  drain();
  watch_.stop();
  follow_timer_.cancel();
  checkpoint_timer_.cancel();
  while (background_ > 0) co_await background_ended_.wait(0);
  asio::steady_timer pause(io_);
  while (holds_ > 0 || !lock_waiters_.empty()) {  // requests that wait for a lock give up, those that have it end
    pause.expires_after(std::chrono::milliseconds(2));
    co_await pause.async_wait(asio::use_awaitable);
  }
  if (auto done = co_await checkpoint_all(); !done) {
    log::error("last_checkpoint_failed",
               {{"error", done.error().detail}, {"next", "the journal has it all; the next start recovers it"}});
  }
}

}  // namespace sessiond
