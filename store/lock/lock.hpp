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
  std::string reason;     // "holder 4711 is dead", "its holder ended with an earlier boot of this machine",
                          // "unchanged for 30000 ms", "admin"
  std::string holder;     // the payload as read (raw JSON), or "" when unreadable
  bool presumed = false;  // not provably gone: it may wake and go on
};

class FileLock {
 public:
  // Takes the lock beside `target` (its real directory). lock_timeout after options.timeout (0: one try), naming the
  // holder.
  static Result<FileLock> acquire(const std::filesystem::path& target, const LockOptions& options,
                                  std::vector<Eviction>& evictions, const std::atomic<bool>* cancel = nullptr);
  FileLock(FileLock&&) noexcept = default;
  FileLock& operator=(FileLock&& other) noexcept;
  ~FileLock();  // releases
  // This process took it, at this turn or since the last, from a holder who is not provably gone and may go on.
  bool predecessor_may_wake() const { return predecessor_may_wake_; }
  bool held() const;  // false: it was taken from us
  // Unlinks only our own; a lock that was taken from us is left to whoever has it now. Where that fails the next
  // acquire of this process takes it away.
  void release();

 private:
  FileLock() = default;
  static Result<std::optional<FileLock>> take(const std::filesystem::path& path, const LockOptions& options,
                                              std::vector<Eviction>& evictions, std::string& holder);
  std::filesystem::path path_;
  std::string token_;
  Fd fd_;
  bool predecessor_may_wake_ = false;
};

// Could the lock be had now? lock_timeout, naming the holder, when not. A stale one is taken away. Cheap: nothing is
// written.
Result<void> lock_is_free(const std::filesystem::path& target, const LockOptions& options,
                          std::vector<Eviction>& evictions);

// Removes the names that killed processes left beside the locks of a sessions folder, its store's and its transcripts'
// (<lock>.<pid>.<random>): the payload tells that its writer is gone, or the name does where it died before it wrote.
void remove_left_lock_names(const std::filesystem::path& dir);

// Who holds the lock beside `target`; nothing when it is free. For GET /v1/admin/locks and doctor.
struct LockHolder {
  std::string payload;  // raw
  std::int64_t pid = 0;
  std::string host;         // empty: its program does not tell
  std::int64_t age_ms = 0;  // by the file's mtime
  bool stale = false;       // provably (provably_gone)
  std::string why{};        // stale: the reason
  bool ours = false;        // this process holds it
};
std::optional<LockHolder> lock_holder(const std::filesystem::path& target);

struct LockWait {
  std::int64_t since_ms = 0;     // ms since the epoch
  std::uint64_t attempts = 0;    // looks at it since then
  std::int64_t evict_in_ms = 0;  // if it stays unchanged
};
struct PastEviction {
  Eviction eviction;
  std::int64_t time_ms = 0;  // ms since the epoch
};
// What this process does about the lock beside `target`, and did last.
struct LockReport {
  std::string path;  // of the lock
  std::optional<LockHolder> holder;
  std::optional<LockWait> wait;  // we want it and somebody has it
  std::optional<PastEviction> last_eviction;
};
LockReport lock_report(const std::filesystem::path& target);

// Takes a lock away from its holder whatever its state (POST /v1/admin/locks/{agent}/evict). Nothing when there is
// none; session_busy when this process holds it.
Result<std::optional<Eviction>> evict_lock(const std::filesystem::path& target, std::string reason);

}  // namespace sessiond
