#include "daemon/ledger/transcript_flusher.hpp"

#include <algorithm>
#include <cassert>

#include "daemon/runtime/log.hpp"
#include "store/fault_point.hpp"
#include "store/files.hpp"
#include "store/names.hpp"
#include "store/try.hpp"

namespace sessiond::ledger {
namespace {

constexpr std::chrono::milliseconds flush_delay{50};  // lines gather this long, unless they are read
constexpr std::size_t flush_bytes = 1U << 20;         // or until there is this much journal
constexpr std::int64_t flush_retry_ms = 1000;

std::optional<lock::LockOptions> transcript_locks(const config::Config& config) {
  if (config.store.mode != config::Config::StoreMode::shared) return {};
  return lock::LockOptions{.timeout = std::chrono::milliseconds(0), .stale = std::chrono::minutes(30)};
}

}  // namespace

TranscriptFlusher::TranscriptFlusher(LedgerEnv& env, Notices& notices, const std::atomic<bool>& adopting)
    : env_(env),
      notices_(notices),
      files_(env.disk, env.paths, transcript_locks(env.config), adopting, facts_,
             [&env, &notices](const std::string& what) {
               asio::post(env.io, [&notices, what] { notices.journal_repaired("journal: " + what); });
             }),
      flush_timer_(env.io) {}

void TranscriptFlusher::add(std::vector<journal::Commit> commits, bool at_once, std::uint64_t bytes) {
  std::ranges::move(commits, std::back_inserter(gathered_));
  gathered_bytes_ += bytes;
  if (at_once || gathered_bytes_ > flush_bytes) hand_over();
  flush_soon();
}

void TranscriptFlusher::hand_over() {
  assert(env_.loop.is_current());
  if (gathered_.empty()) return;
  gathered_bytes_ = 0;
  runtime::post(files_, [commits = std::exchange(gathered_, {})](TranscriptFiles& files) mutable {
    files.take(std::move(commits));
  });
}

asio::awaitable<Result<void>> TranscriptFlusher::flush(std::string agent, std::string file) {
  co_return co_await on_files([path = file_path(env_.paths, agent, file),
                               changes = dir_beside(env_.paths, agent, "changes")](TranscriptFiles& files) {
    return files.flush(path, changes);
  });
}

void TranscriptFlusher::flush_soon() {
  if (flush_scheduled_) return;
  flush_scheduled_ = true;
  const bool waits = std::ranges::any_of(locked_, [](const auto& locked) { return locked.second.why.empty(); });
  const bool retries = facts_->failing || (!waits && !locked_.empty() && gathered_.empty());
  flush_timer_.expires_after(retries ? std::chrono::milliseconds(flush_retry_ms)
                             : waits ? std::chrono::milliseconds(env_.lock_poll_ms())
                                     : flush_delay);
  flush_timer_.async_wait([this](const boost::system::error_code& error) {
    flush_scheduled_ = false;
    if (error) return;
    hand_over();
    runtime::post(files_, [this, &io = env_.io](TranscriptFiles& files) {
      const bool done = files.flush().has_value();
      asio::post(io, [this, done, locked = files.locked(), news = files.take_news()]() mutable {
        set_locked(locked);
        if (!news.empty()) on_news_(std::move(news));
        flushed_.release(0);
        if (!done || !locked_.empty()) flush_soon();
      });
    });
  });
}

asio::awaitable<Result<void>> TranscriptFlusher::wait_until_written(std::string agent, std::string file) {
  const std::string path = env_.paths.transcript(agent, file);
  const std::int64_t deadline = store::steady_ms() + transcript_lock_timeout_ms;
  Result<void> done;
  if (file.empty()) {
    if (!is_locked(path)) co_return done;
    done = fail(Code::lock_timeout, "a transcript of " + agent + " is held by a foreign program");
  } else {
    done = co_await flush(agent, file);
  }
  const LockWaiter waits(env_.lock_waiters, env_.paths.root() / path);
  while (!done && done.error().code == Code::lock_timeout && store::steady_ms() < deadline && !env_.draining) {
    flush_soon();
    co_await flushed_.wait(0);
    if (is_locked(path)) continue;
    done = file.empty() ? Result<void>{} : co_await flush(agent, file);
  }
  co_return done;
}

asio::awaitable<Result<void>> TranscriptFlusher::sync() {
  CO_TRY(const auto stuck, co_await on_files([](TranscriptFiles& files) -> Result<LockedTranscripts> {
           TRY(files.flush());
           TRY(files.projection().sync());
           store::fault_point("marks.files_synced");
           return files.locked();
         }));
  set_locked(stuck);
  if (!locked_.empty()) flush_soon();
  co_return Result<void>{};
}

void TranscriptFlusher::release(const std::string& path) {
  runtime::post(files_, [path](TranscriptFiles& files) { files.projection().writer().release(path); });
}

asio::awaitable<Result<void>> TranscriptFlusher::take_as_known(std::string agent, std::vector<std::string> files) {
  const auto dir = env_.paths.root() / env_.paths.sessions_dir(agent);
  CO_TRY(co_await on_files([dir, agent, files](TranscriptFiles& all) -> Result<void> {
    for (const std::string& file : files) {
      const auto status = store::stat_within(dir / file);
      if (!status) continue;
      TRY(all.projection().take_as_known(
          agent, {.file = file, .inode = status->st_ino, .size = static_cast<std::uint64_t>(status->st_size)}));
    }
    return {};
  }));
  co_return co_await sync();
}

void TranscriptFlusher::unload(const std::string& agent) {
  runtime::post(files_, [agent](TranscriptFiles& files) { files.projection().unload_agent(agent); });
}

bool TranscriptFlusher::is_locked(std::string_view beginning) const {
  const auto at = locked_.lower_bound(beginning);
  return at != locked_.end() && at->first.starts_with(beginning);
}

Result<void> TranscriptFlusher::check_usable(const std::string& agent, const decide::Decision& decision) const {
  if (locked_.empty()) return {};
  for (const decide::TranscriptUpdate& update : decision.transcript_updates) {
    if (store::is_log_file(update.file)) continue;  // its lines wait in the journal, and the work goes on
    const auto found = locked_.find(env_.paths.transcript(agent, update.file));
    if (found != locked_.end() && !found->second.why.empty())
      return std::unexpected(Problem{.code = Code::degraded, .detail = found->second.why, .retry_after_s = 5});
  }
  return {};
}

void TranscriptFlusher::set_locked(const LockedTranscripts& files) {
  std::erase_if(locked_, [&](const auto& locked) {
    const bool over = !files.contains(locked.first);
    if (over && !locked.second.why.empty()) log::info("transcript_mended", {{"file", locked.first}});
    return over;
  });
  for (const auto& [file, why] : files) {
    Locked& locked = locked_.try_emplace(file, Locked{.since = store::steady_ms()}).first->second;
    if (locked.why == why) continue;
    locked.why = why;
    if (why.empty()) continue;
    log::error(is_log_path(file) ? "session_log_unwritable" : "transcript_unwritable",
               {{"file", file},
                {"error", why},
                {"next", "move away what stands there: the lines that wait are written at once"}});
    notices_.degraded(why, {}, is_log_path(file) ? "log" : "");
  }
  std::erase_if(recovering_, [&](const std::string& file) { return !files.contains(file); });
}

}  // namespace sessiond::ledger
