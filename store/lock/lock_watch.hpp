// What this process has seen of locks that others hold: since when each has stood unchanged (FORMATS §3: only our own
// observation, on the monotonic clock, makes a lock stale), how long and how often it was asked for, and what was last
// taken away. It outlives one wait, whose timeout is shorter than `stale`. Any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "store/lock/lock.hpp"
#include "store/lock/lock_file.hpp"

namespace sessiond {

struct ObservedLock {
  std::shared_ptr<const SeenLock> lock;
  std::chrono::steady_clock::duration unchanged{};
};

// The lock was wanted and found held: the same one as at the last look, or another by now.
ObservedLock observe_lock(const std::filesystem::path& lock, SeenLock seen, std::chrono::milliseconds stale);
// It was found free: nobody waits for it any more.
void forget_lock(const std::filesystem::path& lock);
// The same, and it is ours now. True: since we last had it, it was taken from a holder who may wake.
bool had_lock(const std::filesystem::path& lock);
void note_eviction(const Eviction& eviction);

std::optional<LockWait> lock_wait(const std::filesystem::path& lock);
std::optional<PastEviction> last_eviction(const std::filesystem::path& lock);

}  // namespace sessiond
