#include "store/lock.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <unordered_map>

#include "store/lock_file.hpp"
#include "store/process.hpp"
#include "store/raw_json.hpp"

namespace sessiond {
namespace fs = std::filesystem;
namespace {

using Clock = std::chrono::steady_clock;

Result<fs::path> lock_path(const fs::path& target) {
  std::error_code error;
  const fs::path dir = fs::canonical(target.has_parent_path() ? target.parent_path() : fs::path("."), error);
  if (error) return std::unexpected(io_problem("lock", target.native(), error.value()));
  fs::path name = target.filename();
  name += ".lock";
  return dir / name;
}

Problem timed_out(const fs::path& lock, std::chrono::milliseconds timeout, const std::string& payload) {
  const LockPayload holder = read_lock_payload(payload);
  const std::string who =
      holder.readable ? fmt::format("pid {}{}", holder.pid,
                                    holder.host.empty() || holder.host == host_identity() ? "" : " of another host")
                      : std::string("a holder that cannot be read");
  return {.code = Code::lock_timeout,
          .detail = fmt::format("{} is held by {}; waited {} ms", lock.native(), who, timeout.count()),
          .retry_after_s = 1};
}

// Since when this process has seen each contested lock unchanged. It outlives one acquire, whose timeout is shorter
// than `stale`.
class Observations {
 public:
  struct Observed {
    std::shared_ptr<const SeenLock> lock;
    Clock::time_point since;
  };

  Observed note(const fs::path& path, SeenLock seen) {
    const std::lock_guard guard(mutex_);
    Observed& known = known_[path.native()];
    if (!known.lock || !known.lock->same_as(seen)) {
      known = {std::make_shared<const SeenLock>(std::move(seen)), Clock::now()};
    }
    return known;
  }
  void forget(const fs::path& path) {
    const std::lock_guard guard(mutex_);
    known_.erase(path.native());
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, Observed> known_;
};

Observations& observations() {
  static Observations all;
  return all;
}

// Judges the lock that is there. True: it is free or was taken away from a stale holder. `payload` becomes what the
// holder wrote.
Result<bool> make_free(const fs::path& lock, const LockOptions& options, std::vector<Eviction>& evictions,
                       std::string& payload) {
  auto there = look_at_lock(lock);
  if (!there) return std::unexpected(there.error());
  if (!*there) return true;
  const Observations::Observed observed = observations().note(lock, std::move(**there));
  payload = observed.lock->payload;
  std::optional<std::string> reason = provably_gone(read_lock_payload(payload));
  if (!reason && Clock::now() - observed.since >= options.stale) {
    reason = fmt::format("unchanged for {} ms", options.stale.count());
  }
  if (!reason) return false;
  auto taken = take_lock_away(lock, *observed.lock);
  if (!taken) return std::unexpected(taken.error());
  if (*taken) evictions.push_back({lock.native(), *reason, json::check(payload) ? payload : ""});
  observations().forget(lock);
  return true;
}

std::chrono::microseconds with_jitter(std::chrono::milliseconds interval) {
  thread_local std::minstd_rand random{std::random_device{}()};
  const std::int64_t us = std::chrono::microseconds(interval).count();
  return std::chrono::microseconds(std::uniform_int_distribution<std::int64_t>(us / 2, us + us / 2)(random));
}

}  // namespace

Result<FileLock> FileLock::acquire(const fs::path& target, const LockOptions& options, std::vector<Eviction>& evictions,
                                   const std::atomic<bool>* cancel) {
  auto path = lock_path(target);
  if (!path) return std::unexpected(path.error());
  const auto deadline = Clock::now() + options.timeout;
  FileLock lock;
  lock.token_ = random_hex(32);
  std::string holder;
  for (bool free = true;;) {
    if (free) {
      auto fd = put_lock(*path, lock.token_);
      if (!fd) return std::unexpected(fd.error());
      if (*fd) {
        observations().forget(*path);
        lock.path_ = std::move(*path);
        lock.fd_ = std::move(**fd);
        return lock;
      }
    }
    auto freed = make_free(*path, options, evictions, holder);
    if (!freed) return std::unexpected(freed.error());
    free = *freed;
    if (cancel != nullptr && cancel->load()) return fail(Code::draining, fmt::format("{}: given up", path->native()));
    const auto now = Clock::now();
    if (now >= deadline) return std::unexpected(timed_out(*path, options.timeout, holder));
    if (!free) {
      std::this_thread::sleep_for(std::min<Clock::duration>(with_jitter(options.poll_interval), deadline - now));
    }
  }
}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  if (this != &other) {
    release();
    path_ = std::move(other.path_);
    token_ = std::move(other.token_);
    fd_ = std::move(other.fd_);
  }
  return *this;
}

FileLock::~FileLock() { release(); }

void FileLock::release() {
  const Fd fd = std::move(fd_);
  if (!fd) return;
  struct stat held{};
  // While it has a name that is not ours somebody has moved it aside to look at it, and will put it back at once.
  for (int tries = 0; tries < 50; ++tries) {
    const auto there = look_at_lock(path_);
    if (::fstat(fd.get(), &held) != 0 || held.st_nlink == 0) return;
    if (there && *there && (*there)->id == lock_id(held) && read_lock_payload((*there)->payload).token == token_) {
      ::unlink(path_.c_str());
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

std::optional<LockHolder> lock_holder(const fs::path& target) {
  const auto path = lock_path(target);
  if (!path) return {};
  const auto seen = look_at_lock(*path);
  if (!seen || !*seen) return {};
  const LockPayload payload = read_lock_payload((*seen)->payload);
  const auto now =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  return LockHolder{.payload = (*seen)->payload,
                    .pid = payload.pid,
                    .age_ms = std::max<std::int64_t>(0, now - (*seen)->mtime_ms),
                    .stale = provably_gone(payload).has_value()};
}

Result<std::optional<Eviction>> evict_lock(const fs::path& target, std::string reason) {
  const auto path = lock_path(target);
  if (!path) return std::unexpected(path.error());
  auto seen = look_at_lock(*path);
  if (!seen) return std::unexpected(seen.error());
  if (!*seen) return std::nullopt;
  auto taken = take_lock_away(*path, **seen);
  if (!taken) return std::unexpected(taken.error());
  if (!*taken) return std::nullopt;
  return Eviction{path->native(), std::move(reason), json::check((*seen)->payload) ? (*seen)->payload : ""};
}

}  // namespace sessiond
