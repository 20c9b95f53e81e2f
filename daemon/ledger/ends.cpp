// The part of the ledger that makes sure that an append is decided on where its transcript really ends. `seq`,
// `parentId` and `expectedSeq` follow from that, and another program may have appended a moment ago.
// Shared mode: the transcript's lock is taken before the decision counts, and released when the lines are in the file,
// so nobody who takes the lock comes between. Appends to one transcript share a hold; others do not wait.
// Own mode, and programs that take no lock: the file's size is looked at when the decision is made. What is appended
// after that and before our line is in the file takes its place: transcript.renumbered tells (flush.cpp).
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <boost/asio/post.hpp>

#include "daemon/ledger/transcript_hold.hpp"
#include "daemon/runtime/hop.hpp"
#include "daemon/runtime/log.hpp"
#include "store/clock.hpp"

namespace sessiond {
namespace {

constexpr std::int64_t join_ms = 20;                // others may join a hold this long
constexpr std::int64_t foreign_lately_ms = 10'000;  // a program that wrote within this time is given its turn,
constexpr std::int64_t most_turn_ms = 20;           // as long as our hold was, at most this long,
constexpr std::int64_t least_turn_ms = 5;           // and at least this long
// We do not take a lock again sooner than this: OpenClaw 2026.2 that finds our lock, and then no payload to read since
// we have released it, calls it stale and removes whatever stands there by then. Nothing of ours shall.
constexpr std::int64_t rest_ms = 3;
constexpr std::size_t most_turns = 1024;  // remembered, about

}  // namespace

Ledger::TranscriptHold::TranscriptHold(Ledger& of, std::shared_ptr<TranscriptTurn> at, std::string agent,
                                       std::string name)
    : ledger(of), turn(std::move(at)), path(of.paths_.sessions_dir(agent) + name), file(std::move(name)) {
  turn->taken = true;
  ++ledger.holds_;
}

Ledger::TranscriptHold::~TranscriptHold() {
  asio::post(ledger.files_, [&projection = ledger.projection_, path = path] { projection.release(path); });
  const std::int64_t now = steady_ms();
  const bool foreign_lately = turn->foreign_at != 0 && now - turn->foreign_at < foreign_lately_ms;
  if (since != 0)
    turn->not_before = now + (foreign_lately ? std::clamp(now - since, least_turn_ms, most_turn_ms) : rest_ms);
  turn->taken = false;
  --ledger.holds_;
  asio::post(ledger.io_, [turn = turn] { turn->freed.release(0); });
}

bool Ledger::ends_as_known(const AgentState& state, const std::string& file) const {
  const TranscriptEnd* end = state.transcripts.find(file);
  if (end == nullptr) return true;  // it will be read
  const std::string path = paths_.sessions_dir(state.id()) + file;
  struct stat status{};
  const bool there = ::lstat((paths_.state_dir() / path).c_str(), &status) == 0;
  const std::uint64_t size = there ? static_cast<std::uint64_t>(status.st_size) : 0;
  // Our lines that are not in the file yet make no difference: it is as we read it, or as our last flush left it.
  return size == end->read_size || size == projection_.written(path);
}

std::shared_ptr<Ledger::TranscriptHold> Ledger::join_hold(const std::string& agent, const std::string& file) {
  const auto turn = turns_.find(paths_.sessions_dir(agent) + file);
  if (turn == turns_.end()) return nullptr;
  auto open = turn->second->open.lock();
  return open && steady_ms() - open->since < join_ms ? open : nullptr;
}

asio::awaitable<Result<std::shared_ptr<Ledger::TranscriptHold>>> Ledger::hold_transcript(std::string agent,
                                                                                         std::string file) {
  const std::string path = paths_.sessions_dir(agent) + file;
  const std::int64_t deadline = steady_ms() + transcript_lock_timeout_ms;
  if (turns_.size() > most_turns) std::erase_if(turns_, [](const auto& pair) { return pair.second.use_count() == 1; });
  auto& slot = turns_[path];
  if (!slot) slot = std::make_shared<TranscriptTurn>();
  const auto turn = slot;
  const LockWaiter waits(lock_waiters_, paths_.state_dir() / path);
  while (turn->taken) {
    if (const auto trouble = co_await turn->freed.wait(0)) co_return std::unexpected(*trouble);
    if (auto open = join_hold(agent, file)) co_return open;
    if (draining_) co_return fail(Code::draining, "the daemon is shutting down; nothing was stored");
    if (steady_ms() >= deadline)
      co_return std::unexpected(Problem{.code = Code::lock_timeout,
                                        .detail = path + " is held by another program, and others wait for it too",
                                        .retry_after_s = 1});
  }
  const auto hold = std::make_shared<TranscriptHold>(*this, turn, agent, file);
  if (auto taken = co_await take_hold(hold, agent, file, deadline); !taken)
    co_return std::unexpected(std::move(taken.error()));
  turn->open = hold;
  turn->freed.release(0);  // requests that waited meanwhile join
  co_return hold;
}

asio::awaitable<Result<void>> Ledger::take_hold(std::shared_ptr<TranscriptHold> hold, std::string agent,
                                                std::string file, std::int64_t deadline) {
  asio::steady_timer pause(io_);
  const auto rest = [&pause](std::int64_t ms) {
    pause.expires_after(std::chrono::milliseconds(ms));
    return pause.async_wait(asio::use_awaitable);
  };
  if (const std::int64_t left = hold->turn->not_before - steady_ms(); left > 0) co_await rest(left);
  for (;;) {
    if (stopping_) co_return fail(Code::draining, "the daemon is shutting down");
    if (failed_) co_return std::unexpected(*failure_);
    // All of ours that is decided goes into the file first: what stands there beyond it is another program's.
    const auto state = slot(agent).state;
    const TranscriptEnd* end = state ? state->transcripts.find(file) : nullptr;
    if (auto fine = co_await settled(end != nullptr ? end->last_seq : 0); !fine) co_return fine;
    hand_over();
    auto grown = co_await hop(files_, [this, path = hold->path, agent, file]() -> Result<bool> {
      if (auto held = projection_.hold(path); !held) return std::unexpected(std::move(held.error()));
      auto flushed = flush_now(path);
      auto edit = flushed ? projection_.foreign(agent, {file}) : std::unexpected(std::move(flushed.error()));
      if (edit) return !edit->empty();
      projection_.release(path);
      return std::unexpected(std::move(edit.error()));
    });
    schedule_flush();  // tells of a stale lock that was taken away
    if (grown) {
      hold->since = steady_ms();
      if (!*grown) co_return Result<void>{};
      hold->turn->foreign_at = hold->since;
      co_return co_await publish(agent, file);
    }
    if (grown.error().code != Code::lock_timeout) co_return std::unexpected(std::move(grown.error()));
    if (draining_) co_return fail(Code::draining, "the daemon is shutting down; nothing was stored");
    if (steady_ms() >= deadline) {
      grown.error().retry_after_s = 1;
      co_return std::unexpected(std::move(grown.error()));
    }
    co_await rest(lock_poll_ms());
  }
}

asio::awaitable<void> Ledger::end_hold(std::shared_ptr<TranscriptHold> hold) {
  if (hold.use_count() != 1) co_return;
  hold->turn->open.reset();
  co_await hop(files_, [this, path = hold->path] {
    projection_.release(path);
    return true;
  });
}

}  // namespace sessiond
