// The part of the ledger that makes transcripts from the journal, at leisure, and waits for other programs' locks on
// them.
#include <fmt/format.h>

#include <boost/asio/post.hpp>

#include "daemon/ledger/agent.hpp"
#include "daemon/ledger/ledger.hpp"
#include "daemon/runtime/hop.hpp"
#include "daemon/runtime/log.hpp"
#include "store/clock.hpp"

namespace sessiond {
namespace {

constexpr std::chrono::milliseconds flush_delay{50};  // transcript lines gather this long, unless somebody reads them
constexpr std::size_t flush_bytes = 1U << 20;         // or this much
constexpr std::int64_t flush_retry_ms = 1000;

}  // namespace

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
    if (auto done = project_pending(); !done) projection_failing_ = true;
    if (projection_.pending_bytes() > flush_bytes) {
      if (auto done = projection_.flush(); !done) projection_failing_ = true;
    }
  });
}

// A commit that renames a file which another program has locked waits, and with it what comes later for its files;
// the others go on.
Result<void> Ledger::project_pending() {
  blocked_.clear();
  const auto waits = [this](const Commit& commit) {
    return !blocked_.empty() && std::ranges::any_of(projection_.files_of(commit), [this](const std::string& file) {
      return blocked_.contains(file);
    });
  };
  for (auto at = to_project_.begin(); at != to_project_.end();) {
    auto done = waits(*at) ? fail(Code::lock_timeout, "behind a commit that waits")
                           : projection_.add(at->first_seq, at->events, at->line_positions);
    if (done) {
      at = to_project_.erase(at);
    } else if (done.error().code == Code::lock_timeout || done.error().code == Code::degraded) {
      const std::string why = done.error().code == Code::degraded ? done.error().detail : "";
      for (const std::string& file : projection_.files_of(*at++)) blocked_.try_emplace(file, why);
    } else {
      if (!projection_failing_) log::error("files_lag", {{"error", done.error().detail}, {"next", "trying again"}});
      return fail(Code::degraded, "files lag behind the journal (see the log)");
    }
  }
  return {};
}

Result<void> Ledger::flush_now(const std::string& file) {
  auto done = project_pending();
  auto flushed = file.empty() ? projection_.flush() : projection_.flush(file);
  if (const auto blocked = blocked_.find(file); flushed && blocked != blocked_.end())
    flushed = blocked->second.empty() ? fail(Code::lock_timeout, file + " is held by another program")
                                      : fail(Code::degraded, std::string(blocked->second));
  const bool waits = !flushed && (flushed.error().code == Code::lock_timeout || flushed.error().code == Code::degraded);
  const bool unwritable = !flushed && !waits;
  if (unwritable && !projection_failing_)
    log::error("transcripts_unwritable", {{"error", flushed.error().detail}, {"next", "trying again"}});
  projection_failing_ = unwritable || !done;
  return done ? flushed : done;
}

void Ledger::schedule_flush() {
  if (flush_scheduled_) return;
  flush_scheduled_ = true;
  const bool locked = std::ranges::any_of(held_, [](const auto& held) { return held.second.why.empty(); });
  const bool retries = projection_failing_ || (!locked && !held_.empty() && gathered_.empty());
  flush_timer_.expires_after(retries  ? std::chrono::milliseconds(flush_retry_ms)
                             : locked ? std::chrono::milliseconds(lock_poll_ms())
                                      : flush_delay);
  flush_timer_.async_wait([this](const boost::system::error_code& error) {
    flush_scheduled_ = false;
    if (error) return;
    hand_over();
    asio::post(files_, [this] {
      const bool done = flush_now({}).has_value();
      asio::post(io_, [this, done, held = held_files(), displaced = projection_.take_displaced(),
                       renumbered = projection_.take_renumbered(), doubled = projection_.take_duplicate_ids(),
                       evictions = projection_.take_evictions()]() mutable {
        note_held(held);
        const bool quiet = displaced.empty() && renumbered.empty() && doubled.empty() && evictions.empty();
        for (auto& [id, agent] : agents_) {
          if (quiet) break;
          const std::string dir = paths_.sessions_dir(id);
          for (const auto& [path, from] : renumbered) {
            if (path.starts_with(dir))
              in_background(tell_renumbered(id, path.substr(dir.size()), from), "tell_renumbered");
          }
          for (const auto& [path, entry] : doubled) {
            if (path.starts_with(dir)) tell_doubled(id, path.substr(dir.size()), entry);
          }
          for (const std::string& path : displaced) {
            if (!agent->state || !path.starts_with(dir)) continue;
            agent->state->transcripts.forget(path.substr(dir.size()));
            follow(id, path.substr(dir.size()));
          }
          std::vector<Eviction> own;
          for (const Eviction& eviction : evictions) {
            if (eviction.path.contains("/" + dir)) own.push_back(eviction);
          }
          tell_evictions(id, own);
        }
        flushed_.release(0);
        if (!done || !held_.empty()) schedule_flush();
      });
    });
  });
}

// On the files strand: transcripts that lack durable lines because another program holds their lock, or because
// something else stands in their place.
Ledger::HeldFiles Ledger::held_files() const {
  HeldFiles held = projection_.stuck();
  for (const std::string& file : projection_.waiting()) held.try_emplace(file);
  held.insert(blocked_.begin(), blocked_.end());
  return held;
}

void Ledger::note_held(const HeldFiles& files) {
  std::erase_if(held_, [&](const auto& held) {
    const bool over = !files.contains(held.first);
    if (over && !held.second.why.empty()) log::info("transcript_mended", {{"file", held.first}});
    return over;
  });
  for (const auto& [file, why] : files) {
    Held& held = held_.try_emplace(file, Held{.since = steady_ms()}).first->second;
    if (held.why == why) continue;
    held.why = why;
    if (why.empty()) continue;
    log::error("transcript_unwritable",
               {{"file", file},
                {"error", why},
                {"next", "move away what stands there: the lines that wait are written at once"}});
    std::string data;
    json::ObjectWriter writer(data);
    writer.string("reason", why);
    writer.close();
    if (!failed_ && !stopping_) tell(EventType::store_degraded, std::move(data));
  }
  std::erase_if(recovered_, [&](const std::string& file) { return !files.contains(file); });
}

// Nothing is taken for a transcript in whose place something else stands.
Result<void> Ledger::check_stuck(const std::string& agent, const Decision& decision) const {
  for (const TranscriptUpdate& update : decision.transcript_updates) {
    const auto found = held_.find(paths_.sessions_dir(agent) + update.file);
    if (found != held_.end() && !found->second.why.empty())
      return std::unexpected(Problem{.code = Code::degraded, .detail = found->second.why, .retry_after_s = 5});
  }
  return {};
}

bool Ledger::any_held(std::string_view beginning) const {
  const auto at = held_.lower_bound(beginning);
  return at != held_.end() && at->first.starts_with(beginning);
}

asio::awaitable<Result<void>> Ledger::lines_written(std::string agent, std::string file) {
  const std::string path = paths_.sessions_dir(agent) + file;
  const std::int64_t deadline = steady_ms() + transcript_lock_timeout_ms;
  Result<void> done;
  if (file.empty()) {
    if (!any_held(path)) co_return done;
    done = fail(Code::lock_timeout, "a transcript of " + agent + " is held by another program");
  } else {
    done = co_await flush_transcript(agent, file);
  }
  const LockWaiter waits(lock_waiters_, paths_.state_dir() / path);
  while (!done && done.error().code == Code::lock_timeout && steady_ms() < deadline && !draining_) {
    schedule_flush();
    co_await flushed_.wait(0);
    if (any_held(path)) continue;
    done = file.empty() ? Result<void>{} : co_await flush_transcript(agent, file);
  }
  co_return done;
}

// Lines of another program stand where ours were to stand: what was told of their places is wrong.
asio::awaitable<void> Ledger::tell_renumbered(std::string id, std::string file, std::uint64_t from) {
  if (auto loaded = co_await ensure_loaded(id, false); !loaded) co_return not_read(id, loaded.error());
  if (stopping_ || failed_ || !slot(id).state) co_return;
  AgentState& state = *slot(id).state;
  const auto owner = state.owner_of(file);
  if (!owner) co_return;  // archived meanwhile
  const Requester intent{.actor = "external"};
  Decision decision = decide_renumbered(state, *owner, from, context(intent, "external"));
  if (auto last = stage(state, decision); last) co_await settled(*last);
}

void Ledger::tell_doubled(const std::string& id, const std::string& file, const std::string& entry) {
  const std::string reason =
      fmt::format("{}: another program wrote an entry with the id {}, which one of ours has; both stand", file, entry);
  log::warn("entry_id_doubled", {{"agent", id}, {"file", file}, {"id", entry}});
  std::string data;
  json::ObjectWriter writer(data);
  writer.string("reason", reason);
  writer.close();
  tell(EventType::store_degraded, std::move(data), id);
}

asio::awaitable<Result<void>> Ledger::flush_transcript(std::string agent, std::string file) {
  hand_over();
  co_return co_await hop(files_, [this, path = paths_.sessions_dir(agent) + file] { return flush_now(path); });
}

}  // namespace sessiond
