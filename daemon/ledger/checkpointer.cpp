// The part of the ledger that makes files from the journal: transcripts at leisure, sessions.json as often as its duty
// cycle allows, and CHECKPOINT, which says how far both have come.
#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>

#include "daemon/http/hop.hpp"
#include "daemon/http/log.hpp"
#include "daemon/ledger/agent.hpp"
#include "daemon/ledger/ledger.hpp"
#include "store/files.hpp"

namespace sessiond {
namespace {

constexpr std::chrono::milliseconds flush_delay{20};  // transcript lines gather this long, unless somebody reads them
constexpr std::size_t flush_bytes = 1U << 20;         // or this much
constexpr std::int64_t least_pause_ms = 5;            // between two checkpoints of an agent
constexpr std::int64_t retry_ms = 1000;
constexpr std::uint64_t hurry_backlog = 24ULL << 20;  // of journal beyond CHECKPOINT: the duty cycle counts no more

std::int64_t pause_for(std::chrono::nanoseconds took, double duty) {
  const double ms = std::chrono::duration<double, std::milli>(took).count();
  return std::max(least_pause_ms, static_cast<std::int64_t>(ms * (1.0 / std::max(duty, 0.001) - 1.0)));
}

}  // namespace

// What the file has not yet: deletions, then entries, the oldest first.
std::vector<NamedEntry> changes_of(AgentState& state) {
  std::vector<NamedEntry> changes;
  changes.reserve(state.dirty.size());
  std::vector<const Session*> there;
  for (const std::string& key : state.dirty) {
    if (const Session* session = state.mutable_session(key)) {
      there.push_back(session);
    } else {
      changes.push_back({.key = key, .entry = nullptr});
    }
  }
  std::ranges::sort(there, {}, &Session::order);
  for (const Session* session : there) changes.push_back({.key = session->key(), .entry = session->entry()});
  return changes;
}

// Commits gather here for a moment, so that the files' strand is woken for many at once; whoever reads hands them over
// first.
void Ledger::project(std::vector<Commit> commits, bool at_once, std::uint64_t bytes) {
  std::ranges::move(commits, std::back_inserter(gathered_));
  gathered_bytes_ += bytes;
  if (at_once || gathered_bytes_ > flush_bytes) hand_over();
  schedule_flush();
}

void Ledger::hand_over() {
  if (gathered_.empty()) return;
  gathered_bytes_ = 0;
  asio::post(files_, [this, commits = std::exchange(gathered_, {})]() mutable {
    std::ranges::move(commits, std::back_inserter(to_project_));
    project_pending();
    if (projection_.pending_bytes() > flush_bytes) {
      if (auto done = projection_.flush(); !done) projection_failing_ = true;
    }
  });
}

void Ledger::project_pending() {
  while (!to_project_.empty()) {
    const Commit& commit = to_project_.front();
    if (auto done = projection_.add(commit.first_seq, commit.events, commit.places); !done) {
      if (!projection_failing_) log::error("files_lag", {{"error", done.error().detail}, {"next", "trying again"}});
      projection_failing_ = true;
      return;
    }
    projected_ = commit.first_seq + commit.events.size() - 1;
    to_project_.pop_front();
  }
}

Result<void> Ledger::flush_now(const std::string& file) {
  project_pending();
  auto done = file.empty() ? projection_.flush() : projection_.flush(file);
  const bool failing = !done || !to_project_.empty();
  if (failing && !projection_failing_)
    log::error("transcripts_unwritable",
               {{"error", done ? "see above" : done.error().detail}, {"next", "trying again"}});
  projection_failing_ = failing;
  if (!done) return done;
  if (!to_project_.empty()) return fail(Code::degraded, "files lag behind the journal (see the log)");
  return {};
}

void Ledger::schedule_flush() {
  if (flush_scheduled_) return;
  flush_scheduled_ = true;
  flush_timer_.expires_after(projection_failing_ ? std::chrono::milliseconds(retry_ms) : flush_delay);
  flush_timer_.async_wait([this](const boost::system::error_code& error) {
    flush_scheduled_ = false;
    if (error) return;
    hand_over();
    asio::post(files_, [this] {
      const bool done = flush_now({}).has_value();
      auto displaced = projection_.take_displaced();
      if (done && displaced.empty()) return;
      asio::post(io_, [this, done, displaced = std::move(displaced)] {
        for (const std::string& path : displaced) {
          for (auto& [id, agent] : agents_) {
            const std::string dir = paths_.sessions_dir(id);
            if (agent->state && path.starts_with(dir)) agent->state->forget_transcript(path.substr(dir.size()));
          }
        }
        if (!done) schedule_flush();
      });
    });
  });
}

asio::awaitable<Result<void>> Ledger::flush_transcript(std::string agent, std::string file) {
  hand_over();
  co_return co_await hop(files_, [this, path = paths_.sessions_dir(agent) + file] { return flush_now(path); });
}

asio::awaitable<Result<void>> Ledger::checkpoint(std::string id) {
  Agent& agent = slot(id);
  while (agent.checkpointing || agent.looking || agent.loading) co_await agent.waiting.wait(0);
  if (agent.rebuild) {  // durable changes may be in the journal only: read again, never called clean
    if (auto loaded = co_await ensure_loaded(id, true); !loaded) co_return loaded;
  }
  if (!agent.state || agent.state->dirty.empty()) {
    agent.dirty_since = 0;
    if (agent.state) agent.file_seq = std::max(agent.file_seq, durable_);  // the file has all that is durable
    co_return Result<void>{};
  }
  agent.checkpointing = true;
  const auto state = agent.state;
  std::vector<NamedEntry> changes = changes_of(*state);
  const auto taken = std::exchange(state->dirty, {});
  const std::int64_t since = std::exchange(agent.dirty_since, 0);
  // All of this agent's, and nothing of others that is still in flight: if that fails, its seqs are given again.
  const std::uint64_t seq = std::max(durable_, state->last_seq);
  Result<void> outcome = co_await settled(state->last_seq);
  std::optional<ForeignChange> foreign;
  if (outcome) {
    auto written = co_await hop(
        stores_, [file = agent.file, changes = std::move(changes), dir = paths_.state_dir() / paths_.sessions_dir(id)] {
          if (auto made = make_dirs(dir); !made)
            return Result<CheckpointResult>(std::unexpected(std::move(made.error())));
          return file->checkpoint(changes);
        });
    if (written) {
      tell_evictions(id, written->evictions);
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
    agent.trouble.clear();
  } else {
    state->dirty.insert(taken.begin(), taken.end());
    if (agent.dirty_since == 0 || since < agent.dirty_since) agent.dirty_since = since;
    if (!outcome) {
      agent.next_checkpoint = steady_ms() + retry_ms;
      if (agent.trouble.empty())
        log::error("checkpoint_failed", {{"agent", id}, {"error", outcome.error().detail}, {"next", "trying again"}});
      agent.trouble = outcome.error().detail;
    }
  }
  // Merged before anybody writes the file again: what is written is whole entries, theirs included.
  if (foreign) outcome = co_await commit_external(id, std::move(*foreign));
  agent.checkpointing = false;
  agent.waiting.release(0);
  if (foreign && outcome) co_return co_await checkpoint(id);
  co_return outcome;
}

// Transcripts and answers to disk, then CHECKPOINT; the journal may let go of what is older.
asio::awaitable<Result<void>> Ledger::sync_files() {
  co_await renew_resting();
  const std::uint64_t seq = durable_;
  const auto begin = std::chrono::steady_clock::now();
  hand_over();
  auto synced = co_await hop(files_, [this] {
    if (auto flushed = flush_now({}); !flushed) return flushed;
    return projection_.sync();
  });
  if (!synced) co_return synced;
  std::string json;
  json::ObjectWriter writer(json);
  writer.string("epoch", epoch_);
  writer.integer("seq", static_cast<std::int64_t>(seq));
  std::string agents = "{";
  std::string previous = "{";
  std::uint64_t least = seq;
  std::uint64_t least_previous = seq;
  for (const auto& [id, agent] : agents_) {
    if (!agent->state && !agent->file && agent->file_seq == 0) continue;  // never loaded: nothing is known
    const bool clean =
        !agent->rebuild && !agent->loading && (!agent->state || (agent->state->dirty.empty() && !agent->checkpointing));
    if (clean) agent->file_seq = std::max(agent->file_seq, seq);
    const std::uint64_t reached = std::min(agent->file_seq, seq);
    least = std::min(least, reached);
    least_previous = std::min(least_previous, agent->previous_seq);
    agents += fmt::format("{}{}:{}", agents.size() > 1 ? "," : "", json::quote(id), reached);
    previous += fmt::format("{}{}:{}", previous.size() > 1 ? "," : "", json::quote(id), agent->previous_seq);
  }
  writer.raw("agents", agents + "}");
  writer.raw("previous", previous + "}");
  writer.close();
  auto written = co_await hop(stores_, [this, json = json + "\n"] {
    if (auto kept = answers_->flush(true); !kept) return kept;
    answers_->expire(wall_ms());
    return replace_file(paths_.journal_dir() / "CHECKPOINT", json);
  });
  if (!written) co_return written;
  checkpointed_ = least;
  backlog_ = journal_->bytes_after(checkpointed_);
  co_await hop(disk_.get_executor(), [this, to = std::min(least, least_previous)] {
    journal_->release(to);
    return true;
  });
  room_.release(0);
  next_sync_ = steady_ms() + pause_for(std::chrono::steady_clock::now() - begin, config_.store.checkpoint_duty);
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
        stores_, [store = paths_.store_file(agent->id), previous = paths_.previous(agent->id)]() -> Result<void> {
          auto text = read_file(store);
          if (!text)
            return text.error().code == Code::not_found ? Result<void>{} : std::unexpected(std::move(text.error()));
          return replace_file(previous, *text);
        });
    if (done) {
      agent->previous_seq = seq;
    } else {
      log::warn("previous_not_renewed", {{"agent", agent->id}, {"error", done.error().detail}});
    }
  }
}

asio::awaitable<void> Ledger::checkpoint_loop() {
  loop_running_ = true;
  while (!stopping_) {
    const std::int64_t now = steady_ms();
    std::int64_t next = now + 1000;
    const bool hurry = journal_->bytes_after(checkpointed_) > hurry_backlog;
    std::vector<std::string> due;
    for (const auto& [id, agent] : agents_) {
      if (agent->dirty_since == 0) continue;
      if (hurry || agent->next_checkpoint <= now) {
        due.push_back(id);
      } else {
        next = std::min(next, agent->next_checkpoint);
      }
    }
    if (!failed_) {
      for (const std::string& id : due) co_await checkpoint(id);  // a failure is told and tried again
      if (durable_ > checkpointed_ && (hurry || steady_ms() >= next_sync_)) {
        if (auto synced = co_await sync_files(); !synced) {
          log::error("sync_failed", {{"error", synced.error().detail}, {"next", "trying again"}});
          next_sync_ = steady_ms() + retry_ms;
        }
      }
      if (durable_ > checkpointed_) next = std::min(next, next_sync_);
    }
    evict_idle();
    if (!due.empty() && !failed_) continue;  // what became dirty meanwhile is looked at before sleeping
    boost::system::error_code woken;
    checkpoint_timer_.expires_after(std::chrono::milliseconds(std::max<std::int64_t>(next - steady_ms(), 1)));
    co_await checkpoint_timer_.async_wait(asio::redirect_error(asio::use_awaitable, woken));
  }
  loop_running_ = false;
  stopped_.release(0);
}

asio::awaitable<Result<void>> Ledger::checkpoint_all() {
  std::vector<std::string> ids;
  for (const auto& [id, agent] : agents_) {
    if (agent->state) ids.push_back(id);
  }
  const std::uint64_t seq = next_seq_ - 1;
  if (auto fine = co_await settled(seq); !fine) co_return fine;
  for (const std::string& id : ids) {
    if (auto written = co_await checkpoint(id); !written) co_return written;
  }
  co_return co_await sync_files();
}

asio::awaitable<void> Ledger::stop() {
  stopping_ = true;
  watch_.stop();
  checkpoint_timer_.cancel();
  room_.fail(0,
             std::make_shared<const Problem>(Problem{.code = Code::draining, .detail = "the daemon is shutting down"}));
  while (loop_running_) co_await stopped_.wait(0);
  if (auto done = co_await checkpoint_all(); !done) {
    log::error("last_checkpoint_failed",
               {{"error", done.error().detail}, {"next", "the journal has it all; the next start recovers it"}});
  }
}

}  // namespace sessiond
