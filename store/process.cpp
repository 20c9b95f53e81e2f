#include "store/process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <limits>
#include <sstream>

#include "store/files.hpp"

namespace sessiond::store {

namespace {

constexpr std::string_view no_machine = "-";

struct HostParts {
  std::string_view machine = no_machine;
  std::string_view boot{};
  std::string_view space{};  // the pid namespace
};

HostParts parts_of(std::string_view host) {
  HostParts parts;
  const std::size_t last = host.rfind(':');
  if (last == std::string_view::npos) return parts;
  parts.space = host.substr(last + 1);
  parts.boot = host.substr(0, last);
  if (const std::size_t first = parts.boot.find(':'); first != std::string_view::npos) {
    parts.machine = parts.boot.substr(0, first);
    parts.boot.remove_prefix(first + 1);
  }
  return parts;
}

bool is_machine_id(std::string_view text) {
  return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}
bool is_boot_id(std::string_view text) {
  return text.size() == 36 && text.find_first_not_of("0123456789abcdef-") == std::string_view::npos;
}

std::string first_line(const char* path) {
  const std::string text = read_file(path).value_or("");
  return text.substr(0, text.find('\n'));
}

std::string machine_id() {
  for (const char* path : {"/etc/machine-id", "/var/lib/dbus/machine-id"}) {
    std::string id = first_line(path);
    if (is_machine_id(id)) return id;  // "uninitialized" is none
  }
  return std::string(no_machine);
}

std::int64_t ns_of(const timespec& time) { return time.tv_sec * 1'000'000'000 + time.tv_nsec; }

// By the present wall clock. It changes whenever that is set.
std::int64_t apparent_boot_ns() {
  timespec wall{};
  timespec up{};
  ::clock_gettime(CLOCK_REALTIME, &wall);
  ::clock_gettime(CLOCK_BOOTTIME, &up);
  return ns_of(wall) - ns_of(up);
}

// By the wall clock of that time: the kernel makes /dev early, in memory.
std::int64_t first_file_system_ns() {
  struct statfs kind{};
  struct statx made{};
  if (::statfs("/dev", &kind) != 0 || kind.f_type != TMPFS_MAGIC) return INT64_MAX;
  if (::statx(AT_FDCWD, "/dev", 0, STATX_BTIME, &made) != 0 || (made.stx_mask & STATX_BTIME) == 0) return INT64_MAX;
  return made.stx_btime.tv_sec * 1'000'000'000 + made.stx_btime.tv_nsec;
}

}  // namespace

const std::string& host_identity() {
  static const std::string identity = [] {
    struct stat space{};
    const bool known = ::stat("/proc/self/ns/pid", &space) == 0;
    const std::string boot = first_line("/proc/sys/kernel/random/boot_id");
    boot_time_ns();  // remembers the estimate before the clock may be set
    return fmt::format("{}:{}:{}", machine_id(), boot.empty() ? "unknown" : boot, known ? space.st_ino : 0);
  }();
  return identity;
}

Host where_ran(std::string_view host, bool local_disk) {
  const HostParts ours = parts_of(host_identity());
  const HostParts theirs = parts_of(host);
  if (theirs.boot == ours.boot) return theirs.space == ours.space ? Host::here : Host::elsewhere;
  if (!is_boot_id(theirs.boot) || !is_boot_id(ours.boot)) return Host::elsewhere;
  const bool told = theirs.machine != no_machine && ours.machine != no_machine;
  return (told ? theirs.machine == ours.machine : local_disk) ? Host::earlier_boot : Host::elsewhere;
}

std::int64_t boot_time_ns() {
  // The clock may have been set forward since the boot. The first estimate of this process and the time of /dev may be
  // from before that. Setting the clock back only makes the estimate earlier.
  static const std::int64_t at_first = std::min(apparent_boot_ns(), first_file_system_ns());
  return std::min(at_first, apparent_boot_ns());
}

ProcessStatus process_status(std::int64_t pid) {
  ProcessStatus status;
  if (pid <= 0 || pid > std::numeric_limits<pid_t>::max()) return {.dead = true};
  // EPERM: it lives, and belongs to another user.
  status.dead = ::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH;
  const auto text = read_file(fmt::format("/proc/{}/stat", pid));
  if (!text) return status;
  // 4711 (any name) S …: the name may have any characters, so fields are counted from the last parenthesis.
  const std::size_t name_end = text->rfind(')');
  if (name_end == std::string::npos) return status;
  std::istringstream fields(text->substr(name_end + 1));
  std::string state;
  std::string skipped;
  std::uint64_t threads = 0;
  fields >> state;
  for (int field = 4; field < 20; ++field) fields >> skipped;
  fields >> threads >> skipped >> status.starttime;
  // A zombie that still has threads lives: only its first thread has ended.
  if ((state == "Z" || state == "X") && threads <= 1) status.dead = true;
  return status;
}

}  // namespace sessiond::store
