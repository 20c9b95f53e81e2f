// sessions.json.lock and <transcript>.jsonl.lock: shared with programs of the OpenClaw family (FORMATS §3). Blocks;
// disk threads only.
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "store/files.hpp"
#include "store/problem.hpp"

namespace sessiond {

struct LockOptions {
  std::chrono::milliseconds timeout{10'000};
  std::chrono::milliseconds poll_interval{25};  // with jitter
  std::chrono::milliseconds stale{30'000};      // of our own observation, monotonic
};

// Told for every lock that was taken away from its holder; becomes `lock.evicted`.
struct Eviction {
  std::string path;
  std::string reason;  // "holder 4711 is dead", "pid 4711 was given to another process", "unchanged for 30000 ms"
  std::string holder;  // the payload as read (raw JSON), or "" when unreadable
};

class FileLock {
 public:
  // Takes the lock beside `target` (its real directory). lock_timeout after options.timeout, naming the holder.
  static Result<FileLock> acquire(const std::filesystem::path& target, const LockOptions& options,
                                  std::vector<Eviction>& evictions, const std::atomic<bool>* cancel = nullptr);
  FileLock(FileLock&&) noexcept = default;
  FileLock& operator=(FileLock&& other) noexcept;
  ~FileLock();     // releases
  void release();  // unlinks only our own; a lock that was taken from us is left to whoever has it now

 private:
  FileLock() = default;
  std::filesystem::path path_;
  std::string token_;
  Fd fd_;
};

// Who holds the lock beside `target`; nothing when it is free. For GET /v1/admin/locks and doctor.
struct LockHolder {
  std::string payload;  // raw
  std::int64_t pid = 0;
  std::int64_t age_ms = 0;
  bool stale = false;  // provably: dead, zombie or reused pid
};
std::optional<LockHolder> lock_holder(const std::filesystem::path& target);
// Takes a lock away from its holder whatever its state (POST /v1/admin/locks/{agent}/evict).
Result<std::optional<Eviction>> evict_lock(const std::filesystem::path& target, std::string reason);

}  // namespace sessiond
