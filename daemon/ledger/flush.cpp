// The part of the ledger that makes transcripts from the journal, at leisure, and waits for other programs' locks on
// them.
#include <fmt/format.h>

#include <boost/asio/post.hpp>

#include "daemon/http/hop.hpp"
#include "daemon/http/log.hpp"
#include "daemon/ledger/agent.hpp"
#include "daemon/ledger/ledger.hpp"

namespace sessiond {
namespace {

constexpr std::chrono::milliseconds flush_delay{50};  // transcript lines gather this long, unless somebody reads them
constexpr std::size_t flush_bytes = 1U << 20;         // or this much
constexpr std::int64_t flush_retry_ms = 1000;
constexpr std::uint64_t most_held = 64ULL << 20;  // bytes that wait for another program's lock on one transcript

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
                           : projection_.add(at->first_seq, at->events, at->places);
    if (done) {
      at = to_project_.erase(at);
    } else if (done.error().code == Code::lock_timeout) {
      blocked_.merge(projection_.files_of(*at++));
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
  if (flushed && blocked_.contains(file)) flushed = fail(Code::lock_timeout, file + " is held by another program");
  const bool unwritable = !flushed && flushed.error().code != Code::lock_timeout;
  if (unwritable && !projection_failing_)
    log::error("transcripts_unwritable", {{"error", flushed.error().detail}, {"next", "trying again"}});
  projection_failing_ = unwritable || !done;
  return done ? flushed : done;
}

void Ledger::schedule_flush() {
  if (flush_scheduled_) return;
  flush_scheduled_ = true;
  flush_timer_.expires_after(projection_failing_ ? std::chrono::milliseconds(flush_retry_ms)
                             : held_.empty()     ? flush_delay
                                                 : std::chrono::milliseconds(lock_poll_ms()));
  flush_timer_.async_wait([this](const boost::system::error_code& error) {
    flush_scheduled_ = false;
    if (error) return;
    hand_over();
    asio::post(files_, [this] {
      const bool done = flush_now({}).has_value();
      asio::post(io_, [this, done, held = held_files(), displaced = projection_.take_displaced(),
                       evictions = projection_.take_evictions()]() mutable {
        note_held(held);
        for (auto& [id, agent] : agents_) {
          if (displaced.empty() && evictions.empty()) break;
          const std::string dir = paths_.sessions_dir(id);
          for (const std::string& path : displaced) {
            if (!agent->state || !path.starts_with(dir)) continue;
            agent->state->forget_transcript(path.substr(dir.size()));
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

// On the files strand: transcripts that lack durable lines because another program holds their lock.
std::set<std::string, std::less<>> Ledger::held_files() const {
  auto held = projection_.waiting();
  held.insert(blocked_.begin(), blocked_.end());
  return held;
}

void Ledger::note_held(const std::set<std::string, std::less<>>& files) {
  std::erase_if(held_, [&](const auto& held) { return !files.contains(held.first); });
  for (const std::string& file : files) held_.try_emplace(file, Held{.since = steady_ms()});
  std::erase_if(recovered_, [&](const std::string& file) { return !files.contains(file); });
}

// What waits is in memory, and the journal keeps it: not without end, however many clients do not wait for an answer.
Result<void> Ledger::count_held(const std::string& agent, const Decision& decision) {
  for (const TranscriptGrowth& growth : decision.growths) {
    const auto found = held_.find(paths_.sessions_dir(agent) + growth.file);
    if (found == held_.end()) continue;
    if (found->second.bytes > most_held) {
      return std::unexpected(Problem{
          .code = Code::lock_timeout,
          .detail = fmt::format("{} is held by another program, and {} MiB wait for it", found->first, most_held >> 20),
          .retry_after_s = 1});
    }
    for (const Event& event : decision.events) found->second.bytes += event.json->size();
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
  const std::string target = paths_.state_dir() / path;
  ++lock_waiters_[target];
  while (!done && done.error().code == Code::lock_timeout && steady_ms() < deadline && !stopping_) {
    schedule_flush();
    co_await flushed_.wait(0);
    if (any_held(path)) continue;
    done = file.empty() ? Result<void>{} : co_await flush_transcript(agent, file);
  }
  if (--lock_waiters_[target] == 0) lock_waiters_.erase(target);
  co_return done;
}

asio::awaitable<Result<void>> Ledger::flush_transcript(std::string agent, std::string file) {
  hand_over();
  co_return co_await hop(files_, [this, path = paths_.sessions_dir(agent) + file] { return flush_now(path); });
}

}  // namespace sessiond
