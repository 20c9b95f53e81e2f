#include "store/lock/lock_file.hpp"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <ctime>

#include "store/clock.hpp"
#include "store/fault_point.hpp"
#include "store/file_system.hpp"
#include "store/json/raw_json.hpp"
#include "store/process.hpp"
#include "store/try.hpp"

namespace sessiond::lock {
namespace fs = std::filesystem;
namespace {

constexpr std::int64_t clock_margin_ns = 2'000'000'000;  // file times are coarse, and clocks get adjusted

std::string make_payload(const std::string& token) {
  const std::int64_t now = store::unix_ms();
  const auto created =
      fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(static_cast<std::time_t>(now / 1000)), now % 1000);
  json::ObjectWriter out;
  out.integer("pid", ::getpid());
  out.string("createdAt", created);
  out.integer("startedAt", now);
  out.integer("starttime", static_cast<std::int64_t>(store::process_status(::getpid()).starttime));
  out.string("host", store::host_identity());
  out.string("token", token);
  return out.text();
}

fs::path unique_beside(const fs::path& lock) {
  fs::path name = lock;
  name += fmt::format(".{}.{}", ::getpid(), store::random_hex(12));
  return name;
}

}  // namespace

LockId lock_id(const struct stat& status) { return {status.st_dev, status.st_ino, store::identity(status).ctime_ns}; }

Result<std::optional<SeenLock>> look_at_lock(const fs::path& lock) {
  store::Fd fd(::open(lock.c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
  // If we may not read it, we can still see whether it changes.
  const bool secret = !fd && errno == EACCES;
  if (secret) fd = store::Fd(::open(lock.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) {
    if (errno == ENOENT) return std::nullopt;
    return io_fail("open", lock.native());
  }
  TRY(const auto status, store::status_of(fd.get(), lock.native()));
  if (!S_ISREG(status.st_mode)) return fail(Code::internal, fmt::format("{} is not a regular file", lock.native()));
  std::string payload;
  if (!secret) {
    TRY(payload, store::read_at(fd.get(), 0, longest_lock_payload, lock.native()));
  }
  return SeenLock{std::move(fd), lock_id(status), std::move(payload), store::identity(status).mtime_ns / 1'000'000,
                  secret};
}

LockPayload read_lock_payload(std::string_view text) {
  if (!json::check(text) || json::kind(text.substr(text.find_first_not_of(" \t\r\n"))) != json::Kind::object) return {};
  return {.readable = true,
          .pid = json::int_at(text, "pid").value_or(0),
          .starttime = json::int_at(text, "starttime"),
          .host = json::string_at(text, "host").value_or(""),
          .token = json::string_at(text, "token").value_or("")};
}

std::optional<std::string> provably_gone(const SeenLock& seen) {
  const LockPayload payload = read_lock_payload(seen.payload);
  const auto on_local_disk = [&] { return store::network_file_system(seen.fd.get()).empty(); };
  if (!payload.host.empty()) {
    const store::Host host = store::where_ran(payload.host, on_local_disk());
    if (host == store::Host::earlier_boot) return "its holder ended with an earlier boot of this machine";
    if (host == store::Host::elsewhere) return {};
  }
  if (payload.pid > 0) {
    const store::ProcessStatus status = store::process_status(payload.pid);
    if (status.dead) return fmt::format("holder {} is dead", payload.pid);
    // Without a host the starttime may belong to another boot.
    if (!payload.host.empty() && payload.starttime && status.starttime != 0 &&
        status.starttime != static_cast<std::uint64_t>(*payload.starttime))
      return fmt::format("pid {} was given to another process", payload.pid);
  }
  if (payload.host.empty() && seen.id.ctime_ns + clock_margin_ns < store::boot_time_ns() && on_local_disk())
    return "it is older than this boot of the machine";
  return {};
}

bool is_this_process(const LockPayload& payload) {
  return payload.pid == ::getpid() && payload.host == store::host_identity() &&
         payload.starttime == static_cast<std::int64_t>(store::process_status(::getpid()).starttime);
}

Result<std::optional<store::Fd>> put_lock(const fs::path& lock, const std::string& token) {
  const fs::path temp = unique_beside(lock);
  TRY(auto fd, store::open_file(temp, O_RDWR | O_CREAT | O_EXCL));
  auto written = store::write_all(fd.get(), make_payload(token), temp.native());
  if (written) written = store::sync_file(fd.get(), temp);
  int error = 0;
  if (written) {
    store::fault_point("lock.payload_written");
    if (::link(temp.c_str(), lock.c_str()) != 0) error = errno;
    // On file systems without hard links.
    if (error == EPERM || error == EOPNOTSUPP || error == ENOSYS) {
      error = ::renameat2(AT_FDCWD, temp.c_str(), AT_FDCWD, lock.c_str(), RENAME_NOREPLACE) == 0 ? 0 : errno;
    }
  }
  store::fault_point("lock.linked");
  ::unlink(temp.c_str());
  if (!written) return std::unexpected(written.error());
  if (error == EEXIST) return std::nullopt;
  if (error != 0) return std::unexpected(io_problem("lock", lock.native(), error));
  return std::optional<store::Fd>(std::move(fd));
}

Result<bool> take_lock_away(const fs::path& lock, const SeenLock& judged) {
  // If several of our processes judged the same lock, one proceeds; the others then see that it has changed.
  if (::flock(judged.fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return false;
  struct stat status{};
  if (::lstat(lock.c_str(), &status) != 0 || status.st_ino != judged.id.inode || status.st_dev != judged.id.device) {
    ::flock(judged.fd.get(), LOCK_UN);
    return false;
  }
  const fs::path aside = unique_beside(lock);
  if (::rename(lock.c_str(), aside.c_str()) != 0) {
    if (errno == ENOENT) return false;
    return io_fail("evict", lock.native());
  }
  store::fault_point("lock.moved_aside");
  auto taken = look_at_lock(aside);
  // The rename changed its ctime. The inode is reliable because we have the judged file open.
  const bool right = taken && *taken && (*taken)->id.device == judged.id.device &&
                     (*taken)->id.inode == judged.id.inode && (*taken)->payload == judged.payload;
  // EEXIST: a third process made a lock meanwhile, so two may think that they hold it. The checkpoint's exchange makes
  // that harmless (store/sessions/write.cpp).
  if (!right && ::link(aside.c_str(), lock.c_str()) != 0 && errno != EEXIST) {
    // On file systems without hard links.
    if (::renameat2(AT_FDCWD, aside.c_str(), AT_FDCWD, lock.c_str(), RENAME_NOREPLACE) == 0) return false;
  }
  ::unlink(aside.c_str());
  return right;
}

}  // namespace sessiond::lock
