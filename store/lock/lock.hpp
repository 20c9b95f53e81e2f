// The locks of sessions.json and of transcripts, <file>.lock, which we share with programs of the OpenClaw family.
//
// A lock is a file that exists while it is held and says in its content who holds it. A holder that died leaves it
// behind, so a lock is taken away from a holder that is provably gone (lock_file.hpp), or if this process has seen it
// unchanged for LockOptions::stale. A holder that was only presumed gone may continue: see
// FileLock::predecessor_may_wake. Blocks: disk threads only. Any thread. The protocol:
// store/lock/README.md.
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "store/files.hpp"
#include "store/problem.hpp"

namespace sessiond::lock {

struct LockOptions {
  std::chrono::milliseconds timeout{10'000};
  std::chrono::milliseconds poll_interval{25};  // plus or minus half, at random
  std::chrono::milliseconds stale{30'000};      // by our own observation on the monotonic clock
};

// A lock that was taken away from its holder. Becomes the event lock.evicted.
struct Eviction {
  std::string path;
  std::string reason;     // "holder 4711 is dead", "its holder ended with an earlier boot of this machine",
                          // "unchanged for 30000 ms", "admin"
  std::string holder;     // content of the lock (raw JSON), or "" if it is not JSON
  bool presumed = false;  // the holder is not provably gone and may continue
};

class FileLock {
 public:
  // Takes the lock beside `target`, in its real folder. lock_timeout, with the holder, after options.timeout (0: one
  // try); `draining` if `cancel` becomes true.
  static Result<FileLock> acquire(const std::filesystem::path& target, const LockOptions& options,
                                  std::vector<Eviction>& evictions, const std::atomic<bool>* cancel = nullptr);
  FileLock(FileLock&&) noexcept = default;
  FileLock& operator=(FileLock&& other) noexcept;
  ~FileLock();  // releases
  // Tells whether this process, since it last had the lock, took it away from a holder that may continue.
  bool predecessor_may_wake() const { return predecessor_may_wake_; }
  bool held() const;  // false: it was taken away from us, or released
  // Shows to others that the holder lives: programs, this one included, that judge a lock by its times begin anew.
  void touch() const;
  const std::filesystem::path& path() const { return path_; }  // of the lock
  // Removes the lock if it is still ours. If that fails, the next acquire in this process removes it.
  void release();

 private:
  FileLock() = default;
  static Result<std::optional<FileLock>> take(const std::filesystem::path& path, const LockOptions& options,
                                              std::vector<Eviction>& evictions, std::string& holder);
  std::filesystem::path path_;
  std::string token_;
  store::Fd fd_;
  bool predecessor_may_wake_ = false;
};

// Succeeds if the lock is free now; else lock_timeout, with the holder. Takes a stale lock away. Cheap: writes nothing.
Result<void> lock_is_free(const std::filesystem::path& target, const LockOptions& options,
                          std::vector<Eviction>& evictions);

// Takes the lock beside `target` away if its holder is provably gone. Failures do no harm: whoever wants the lock does
// it again.
void evict_gone(const std::filesystem::path& target, std::vector<Eviction>& evictions);

// Removes the files <lock>.<pid>.<random> that killed processes left in a sessions folder, if their content or name
// proves that the process is gone.
void remove_left_lock_names(const std::filesystem::path& dir);

// The holder of the lock beside `target`; nothing if it is free. For GET /v1/admin/locks and doctor.
struct LockHolder {
  std::string payload;  // raw
  std::int64_t pid = 0;
  std::string host;         // "": not given
  std::int64_t age_ms = 0;  // by the mtime
  bool stale = false;       // the holder is provably gone
  std::string why{};        // stale: the reason
  bool ours = false;        // this process holds it
};
std::optional<LockHolder> lock_holder(const std::filesystem::path& target);

struct LockWait {
  std::int64_t since_ms = 0;     // ms since the epoch
  std::uint64_t attempts = 0;    // since then
  std::int64_t evict_in_ms = 0;  // if the lock stays unchanged
};
struct PastEviction {
  Eviction eviction;
  std::int64_t time_ms = 0;  // ms since the epoch
};
// Tells what this process knows of the lock beside `target`.
struct LockReport {
  std::string path;  // of the lock
  std::optional<LockHolder> holder;
  std::optional<LockWait> wait;  // set while this process waits for it
  std::optional<PastEviction> last_eviction;
};
LockReport lock_report(const std::filesystem::path& target);

// Takes a lock away from its holder in any case, for POST /v1/admin/locks/{agent}/evict. Nothing if there is none;
// session_busy if this process holds it.
Result<std::optional<Eviction>> evict_lock(const std::filesystem::path& target, std::string reason);

}  // namespace sessiond::lock
