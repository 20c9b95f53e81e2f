#include "daemon/ledger/transcript_locks.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cassert>

#include "store/try.hpp"

namespace sessiond::ledger {
namespace {

constexpr std::int64_t join_ms = 20;                // other requests may join a hold this long
constexpr std::int64_t foreign_lately_ms = 10'000;  // a program that wrote within this time is given its turn,
constexpr std::int64_t most_turn_ms = 20;           // as long as our hold was, at most this long,
constexpr std::int64_t least_turn_ms = 5;           // and at least this long
// We do not take a lock again sooner than this. OpenClaw 2026.2 that finds our lock and reads it just after its release
// takes it for stale and removes the lock file that exists by then, which must not be our next one.
constexpr std::int64_t rest_ms = 3;
constexpr std::size_t most_turns = 1024;  // about so many are remembered

Problem held_by_others(const std::string& path) {
  return {.code = Code::lock_timeout,
          .detail = path + " is held by a foreign program, and others wait for it too",
          .retry_after_s = 1};
}

}  // namespace

struct TranscriptTurn {
  std::weak_ptr<TranscriptHold> open{};  // may be joined
  bool taken = false;                    // a request takes the lock, or has it
  std::int64_t foreign_at = 0;           // steady ms when a foreign program's lines were found the last time
  std::int64_t not_before = 0;           // steady ms: until then foreign programs may take the lock
  runtime::Waiters freed{};
};

TranscriptHold::TranscriptHold(LedgerEnv& around, TranscriptFlusher& writes, std::shared_ptr<TranscriptTurn> at,
                               std::string path_below, std::string name)
    : env(around), flusher(writes), turn(std::move(at)), path(std::move(path_below)), file(std::move(name)) {
  turn->taken = true;
}

// NOLINTNEXTLINE(bugprone-exception-escape): throws when memory is out, and the daemon ends
TranscriptHold::~TranscriptHold() {
  flusher.release(path);
  const std::int64_t now = store::steady_ms();
  const bool foreign_lately = turn->foreign_at != 0 && now - turn->foreign_at < foreign_lately_ms;
  if (since != 0)
    turn->not_before = now + (foreign_lately ? std::clamp(now - since, least_turn_ms, most_turn_ms) : rest_ms);
  turn->taken = false;
  asio::post(env.io, [turn = turn] { turn->freed.release(0); });
}

bool TranscriptLocks::any_held() const {
  return std::ranges::any_of(turns_, [](const auto& pair) { return pair.second->taken; });
}

bool TranscriptLocks::ends_as_known(const decide::AgentState& state, const std::string& file) const {
  const decide::TranscriptEnd* end = state.transcripts.find(file);
  if (end == nullptr) return true;  // it will be read
  const std::string root = env_.paths.root().native() + '/';
  const std::string path = env_.paths.transcript(state.id(), file, root);
  struct stat status{};
  const bool there = ::stat(path.c_str(), &status) == 0;  // a link is followed
  const std::uint64_t size = there ? static_cast<std::uint64_t>(status.st_size) : 0;
  const std::string_view below_root = std::string_view(path).substr(root.size());
  // Our lines that are not in the file yet do not count: its size is what we read, or what our last flush left.
  return size == end->read_size || size == flusher_.facts().sizes.find(below_root);
}

std::shared_ptr<TranscriptHold> TranscriptLocks::join(const std::string& agent, const std::string& file) {
  const auto turn = turns_.find(env_.paths.transcript(agent, file));
  if (turn == turns_.end()) return nullptr;
  auto open = turn->second->open.lock();
  return open && store::steady_ms() - open->since < join_ms ? open : nullptr;
}

asio::awaitable<Result<std::shared_ptr<TranscriptHold>>> TranscriptLocks::take(std::string agent, std::string file,
                                                                               std::int64_t patience_ms) {
  const std::string path = env_.paths.transcript(agent, file);
  assert(env_.loop.is_current());
  const std::int64_t deadline = store::steady_ms() + patience_ms;
  if (turns_.size() > most_turns) std::erase_if(turns_, [](const auto& pair) { return pair.second.use_count() == 1; });
  auto& slot = turns_[path];
  if (!slot) slot = std::make_shared<TranscriptTurn>();
  const auto turn = slot;
  const LockWaiter waits(env_.lock_waiters, env_.paths.root() / path);
  while (turn->taken) {
    if (patience_ms < transcript_lock_timeout_ms)  // who has the turn may wait that long
      co_return std::unexpected(held_by_others(path));
    if (const auto trouble = co_await turn->freed.wait(0)) co_return std::unexpected(*trouble);
    if (auto open = join(agent, file)) co_return open;
    if (env_.draining) co_return fail(Code::draining, "the daemon is shutting down; nothing was stored");
    if (store::steady_ms() >= deadline) co_return std::unexpected(held_by_others(path));
  }
  const auto hold = std::make_shared<TranscriptHold>(env_, flusher_, turn, path, file);
  CO_TRY(co_await take_lock(hold, agent, file, deadline));
  turn->open = hold;
  turn->freed.release(0);  // requests that waited meanwhile join
  co_return hold;
}

asio::awaitable<Result<void>> TranscriptLocks::take_lock(std::shared_ptr<TranscriptHold> hold, std::string agent,
                                                         std::string file, std::int64_t deadline) {
  asio::steady_timer pause(env_.io);
  const auto rest = [&pause](std::int64_t ms) {
    pause.expires_after(std::chrono::milliseconds(ms));
    return pause.async_wait(asio::use_awaitable);
  };
  if (const std::int64_t left = hold->turn->not_before - store::steady_ms(); left > 0) co_await rest(left);
  for (;;) {
    if (env_.stopping) co_return fail(Code::draining, "the daemon is shutting down");
    if (commits_.failed()) co_return commits_.failure();
    // All decided lines of ours go into the file first: whatever else stands there is foreign.
    const auto state = agents_.find_or_add(agent).state;
    const decide::TranscriptEnd* end = state ? state->transcripts.find(file) : nullptr;
    CO_TRY(co_await commits_.wait_until_durable(end != nullptr ? end->last_seq : 0));
    auto grown = co_await flusher_.on_files([agent, file](TranscriptFiles& files) { return files.hold(agent, file); });
    flusher_.flush_soon();  // reports a stale lock that was removed
    if (grown) {
      hold->since = store::steady_ms();
      if (!*grown) co_return Result<void>{};
      hold->turn->foreign_at = hold->since;
      co_return co_await follower_.publish(agent, file);
    }
    if (grown.error().code != Code::lock_timeout) co_return std::unexpected(std::move(grown.error()));
    if (env_.draining) co_return fail(Code::draining, "the daemon is shutting down; nothing was stored");
    if (store::steady_ms() >= deadline) {
      grown.error().retry_after_s = 1;
      co_return std::unexpected(std::move(grown.error()));
    }
    co_await rest(env_.lock_poll_ms());
  }
}

asio::awaitable<void> TranscriptLocks::release(std::shared_ptr<TranscriptHold> hold) {
  if (hold.use_count() != 1) co_return;
  hold->turn->open.reset();
  co_await flusher_.on_files([path = hold->path](TranscriptFiles& files) {
    files.projection().writer().release(path);
    return true;
  });
}

}  // namespace sessiond::ledger
