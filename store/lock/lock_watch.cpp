#include "store/lock/lock_watch.hpp"

#include <algorithm>
#include <deque>
#include <mutex>
#include <ranges>
#include <unordered_map>
#include <unordered_set>

#include "store/clock.hpp"

namespace sessiond::lock {
namespace fs = std::filesystem;
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t most_evictions = 256;  // that are remembered, of all locks

struct Wanted {
  std::shared_ptr<const SeenLock> lock;
  Clock::time_point unchanged_since;
  std::chrono::milliseconds stale{};
  std::int64_t since_ms = 0;
  std::uint64_t attempts = 0;
};

struct Seen {
  std::mutex mutex;
  std::unordered_map<std::string, Wanted> wanted;
  std::unordered_set<std::string> may_wake;  // locks that we took away from holders that may continue
  std::deque<PastEviction> evictions;        // the newest last
};

Seen& all() {
  static Seen seen;
  return seen;
}

}  // namespace

ObservedLock observe_lock(const fs::path& lock, SeenLock seen, std::chrono::milliseconds stale) {
  const std::lock_guard guard(all().mutex);
  Wanted& wanted = all().wanted[lock.native()];
  if (wanted.attempts++ == 0) wanted.since_ms = store::unix_ms();
  wanted.stale = stale;
  const auto now = Clock::now();
  if (!wanted.lock || !wanted.lock->same_as(seen)) {
    wanted.lock = std::make_shared<const SeenLock>(std::move(seen));
    wanted.unchanged_since = now;
  }
  return {.lock = wanted.lock, .unchanged = now - wanted.unchanged_since};
}

void forget_lock(const fs::path& lock) {
  const std::lock_guard guard(all().mutex);
  all().wanted.erase(lock.native());
}

bool had_lock(const fs::path& lock) {
  const std::lock_guard guard(all().mutex);
  all().wanted.erase(lock.native());
  return all().may_wake.erase(lock.native()) != 0;
}

void note_eviction(const Eviction& eviction) {
  const std::lock_guard guard(all().mutex);
  if (eviction.presumed) all().may_wake.insert(eviction.path);
  auto& evictions = all().evictions;
  if (evictions.size() == most_evictions) evictions.pop_front();
  evictions.push_back({.eviction = eviction, .time_ms = store::unix_ms()});
}

std::optional<LockWait> lock_wait(const fs::path& lock) {
  const std::lock_guard guard(all().mutex);
  const auto found = all().wanted.find(lock.native());
  if (found == all().wanted.end()) return {};
  const Wanted& wanted = found->second;
  const auto left = wanted.unchanged_since + wanted.stale - Clock::now();
  return LockWait{
      .since_ms = wanted.since_ms,
      .attempts = wanted.attempts,
      .evict_in_ms = std::max<std::int64_t>(0, std::chrono::duration_cast<std::chrono::milliseconds>(left).count())};
}

std::optional<PastEviction> last_eviction(const fs::path& lock) {
  const std::lock_guard guard(all().mutex);
  for (const PastEviction& past : all().evictions | std::views::reverse) {
    if (past.eviction.path == lock.native()) return past;
  }
  return {};
}

}  // namespace sessiond::lock
