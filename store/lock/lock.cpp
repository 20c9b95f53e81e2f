#include "store/lock/lock.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <mutex>
#include <random>
#include <thread>
#include <unordered_set>

#include "store/clock.hpp"
#include "store/json/raw_json.hpp"
#include "store/lock/lock_file.hpp"
#include "store/lock/lock_watch.hpp"
#include "store/process.hpp"
#include "store/try.hpp"

namespace sessiond::lock {
namespace fs = std::filesystem;
namespace {

using Clock = std::chrono::steady_clock;

// A program that makes a lock and then writes it leaves it empty for milliseconds. If it stays empty, the program died.
constexpr std::chrono::milliseconds empty_for_long{5000};

Result<fs::path> lock_path(const fs::path& target) {
  std::error_code error;
  const fs::path dir = fs::canonical(target.has_parent_path() ? target.parent_path() : fs::path("."), error);
  if (error) return std::unexpected(io_problem("lock", target.native(), error.value()));
  fs::path name = target.filename();
  name += ".lock";
  return dir / name;
}

Problem held_by(const fs::path& lock, const std::string& payload) {
  const LockPayload holder = read_lock_payload(payload);
  const std::string who =
      holder.readable ? fmt::format("pid {}{}", holder.pid,
                                    holder.host.empty() || store::where_ran(holder.host, false) == store::Host::here
                                        ? ""
                                        : " of another host")
                      : std::string("an unknown holder");
  return {
      .code = Code::lock_timeout, .detail = fmt::format("{} is held by {}", lock.native(), who), .retry_after_s = 1};
}

Eviction eviction_of(const fs::path& lock, std::string reason, const std::string& payload, bool presumed) {
  Eviction eviction{lock.native(), std::move(reason), json::check(payload) ? payload : "", presumed};
  note_eviction(eviction);
  return eviction;
}

// Tokens of locks that we released but could not remove because the disk failed. They are free.
class LeftBehind {
 public:
  void add(std::string token) {
    const std::lock_guard guard(mutex_);
    tokens_.insert(std::move(token));
  }
  bool contains(const std::string& token) {
    const std::lock_guard guard(mutex_);
    return tokens_.contains(token);
  }

 private:
  std::mutex mutex_;
  std::unordered_set<std::string> tokens_;
};

LeftBehind& left_behind() {
  static LeftBehind all;
  return all;
}

// Returns whether the lock is free, after it took it away from a stale holder. `payload` becomes the content of the
// lock.
Result<bool> make_free(const fs::path& lock, const LockOptions& options, std::vector<Eviction>& evictions,
                       std::string& payload) {
  TRY(auto there, look_at_lock(lock));
  if (!there) {
    forget_lock(lock);
    return true;
  }
  const auto stale = there->empty() ? std::min(options.stale, empty_for_long) : options.stale;
  const ObservedLock observed = observe_lock(lock, std::move(*there), stale);
  payload = observed.lock->payload;
  std::optional<std::string> reason = provably_gone(*observed.lock);
  if (!reason && left_behind().contains(read_lock_payload(payload).token))
    reason = "this daemon released it but could not remove it";
  const bool presumed = !reason;
  if (!reason && is_this_process(read_lock_payload(payload))) return false;  // a part of this process holds it
  if (!reason && observed.unchanged >= stale)
    reason = fmt::format("{} for {} ms", observed.lock->empty() ? "empty" : "unchanged", stale.count());
  if (!reason) return false;
  TRY(auto taken, take_lock_away(lock, *observed.lock));
  if (taken) evictions.push_back(eviction_of(lock, std::move(*reason), payload, presumed));
  return true;
}

// Tells whether a file "<lock>.<pid>.<random>" was left by a process that is gone. If that process died before it wrote
// the content, only the pid in the name tells; if a process of another host has that pid, it fails to take the lock and
// tries again.
bool is_left(const SeenLock& seen, std::string_view maker) {
  if (provably_gone(seen)) return true;
  if (read_lock_payload(seen.payload).readable) return false;
  std::int64_t pid = 0;
  std::from_chars(maker.data(), maker.data() + maker.size(), pid);
  return pid > 0 && store::process_status(pid).dead;
}

std::chrono::microseconds with_jitter(std::chrono::milliseconds interval) {
  thread_local std::minstd_rand random{std::random_device{}()};
  const std::int64_t us = std::chrono::microseconds(interval).count();
  return std::chrono::microseconds(std::uniform_int_distribution<std::int64_t>(us / 2, us + us / 2)(random));
}

}  // namespace

Result<std::optional<FileLock>> FileLock::take(const fs::path& path, const LockOptions& options,
                                               std::vector<Eviction>& evictions, std::string& holder) {
  TRY(auto free, make_free(path, options, evictions, holder));
  if (!free) return std::nullopt;
  FileLock lock;
  lock.token_ = store::random_hex(32);
  TRY(auto fd, put_lock(path, lock.token_));
  if (!fd) return std::nullopt;  // another process was faster
  lock.predecessor_may_wake_ = had_lock(path);
  lock.path_ = path;
  lock.fd_ = std::move(*fd);
  return lock;
}

Result<FileLock> FileLock::acquire(const fs::path& target, const LockOptions& options, std::vector<Eviction>& evictions,
                                   const std::atomic<bool>* cancel) {
  TRY(auto path, lock_path(target));
  const auto deadline = Clock::now() + options.timeout;
  for (std::string holder;;) {
    TRY(auto lock, take(path, options, evictions, holder));
    if (lock) return std::move(*lock);
    if (cancel != nullptr && cancel->load())
      return fail(Code::draining, fmt::format("{}: the wait was cancelled", path.native()));
    const auto now = Clock::now();
    if (now >= deadline) return std::unexpected(held_by(path, holder));
    std::this_thread::sleep_for(std::min<Clock::duration>(with_jitter(options.poll_interval), deadline - now));
  }
}

Result<void> lock_is_free(const fs::path& target, const LockOptions& options, std::vector<Eviction>& evictions) {
  TRY(auto path, lock_path(target));
  std::string holder;
  TRY(auto free, make_free(path, options, evictions, holder));
  return free ? Result<void>{} : std::unexpected(held_by(path, holder));
}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  if (this != &other) {
    release();
    path_ = std::move(other.path_);
    token_ = std::move(other.token_);
    fd_ = std::move(other.fd_);
    predecessor_may_wake_ = other.predecessor_may_wake_;
  }
  return *this;
}

FileLock::~FileLock() { release(); }

bool FileLock::held() const {
  struct stat ours{};
  struct stat there{};
  return fd_ && ::fstat(fd_.get(), &ours) == 0 && ::lstat(path_.c_str(), &there) == 0 && ours.st_ino == there.st_ino &&
         ours.st_dev == there.st_dev;
}

void FileLock::touch() const {
  if (fd_) ::futimens(fd_.get(), nullptr);
}

// Removes it like a foreign lock, so that a process that took it while we were stopped keeps its own.
void FileLock::release() {
  store::Fd fd = std::move(fd_);
  if (!fd) return;
  struct stat held{};
  auto payload = store::read_at(fd.get(), 0, longest_lock_payload, path_.native());
  if (payload && ::fstat(fd.get(), &held) == 0) {
    const SeenLock ours{.fd = std::move(fd), .id = lock_id(held), .payload = std::move(*payload)};
    // If our file has another name, a process has moved it aside to look at it and will move it back at once.
    for (int tries = 0; tries < 50; ++tries) {
      if (const auto gone = take_lock_away(path_, ours); gone && *gone) return;
      if (::fstat(ours.fd.get(), &held) != 0 || held.st_nlink == 0) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  left_behind().add(token_);  // the disk fails: the next acquire removes it
}

void evict_gone(const fs::path& target, std::vector<Eviction>& evictions) {
  const auto path = lock_path(target);
  if (!path) return;
  const auto seen = look_at_lock(*path);
  if (!seen || !*seen) return;
  auto reason = provably_gone(**seen);
  if (!reason) return;
  const auto taken = take_lock_away(*path, **seen);
  if (taken && *taken) evictions.push_back(eviction_of(*path, std::move(*reason), (*seen)->payload, false));
}

void remove_left_lock_names(const fs::path& dir) {
  static constexpr std::string_view mark = ".lock.";
  store::each_in(dir, [&](const fs::directory_entry& entry) {  // failures do no harm
    const std::string name = entry.path().filename();
    const std::string_view locked = std::string_view(name).substr(0, name.rfind(mark));
    if (locked.size() == name.size() || !(locked.ends_with(".json") || locked.ends_with(".jsonl"))) return;
    const auto seen = look_at_lock(entry.path());
    if (seen && *seen && is_left(**seen, std::string_view(name).substr(locked.size() + mark.size())))
      ::unlink(entry.path().c_str());
  });
}

std::optional<LockHolder> lock_holder(const fs::path& target) {
  const auto path = lock_path(target);
  if (!path) return {};
  const auto seen = look_at_lock(*path);
  if (!seen || !*seen) return {};
  const LockPayload payload = read_lock_payload((*seen)->payload);
  const std::int64_t now = store::unix_ms();
  const auto gone = provably_gone(**seen);
  return LockHolder{.payload = (*seen)->payload,
                    .pid = payload.pid,
                    .host = payload.host,
                    .age_ms = std::max<std::int64_t>(0, now - (*seen)->mtime_ms),
                    .stale = gone.has_value(),
                    .why = gone.value_or(""),
                    .ours = is_this_process(payload)};
}

LockReport lock_report(const fs::path& target) {
  const fs::path path = lock_path(target).value_or(fs::path(target.native() + ".lock"));
  return {.path = path.native(),
          .holder = lock_holder(target),
          .wait = lock_wait(path),
          .last_eviction = last_eviction(path)};
}

Result<std::optional<Eviction>> evict_lock(const fs::path& target, std::string reason) {
  TRY(const auto path, lock_path(target));
  TRY(auto seen, look_at_lock(path));
  if (!seen) return std::nullopt;
  if (is_this_process(read_lock_payload(seen->payload)))
    return fail(Code::session_busy, fmt::format("{} is held by this daemon at this moment", path.native()));
  TRY(auto taken, take_lock_away(path, *seen));
  if (!taken) return std::nullopt;
  return eviction_of(path, std::move(reason), seen->payload, !provably_gone(*seen));
}

}  // namespace sessiond::lock
