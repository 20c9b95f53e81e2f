// Remembers what this process has observed of locks that others hold: since when each has been unchanged, how long and
// how often it was wanted, and which locks were taken away last. Only our own observation on the monotonic clock makes
// a lock stale. The observations outlive a wait, whose timeout is shorter than LockOptions::stale. Any thread.
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

namespace sessiond::lock {

struct ObservedLock {
  std::shared_ptr<const SeenLock> lock;
  std::chrono::steady_clock::duration unchanged{};
};

// Notes that the lock was wanted and is held. Returns for how long it has been unchanged.
ObservedLock observe_lock(const std::filesystem::path& lock, SeenLock seen, std::chrono::milliseconds stale);
// Notes that the lock is free.
void forget_lock(const std::filesystem::path& lock);
// Notes that the lock is ours now. Returns whether, since we last had it, we took it away from a holder that may
// continue.
bool had_lock(const std::filesystem::path& lock);
void note_eviction(const Eviction& eviction);

std::optional<LockWait> lock_wait(const std::filesystem::path& lock);
std::optional<PastEviction> last_eviction(const std::filesystem::path& lock);

}  // namespace sessiond::lock
