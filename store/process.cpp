#include "store/process.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>

#include <cerrno>
#include <limits>
#include <sstream>

#include "store/files.hpp"

namespace sessiond {

const std::string& host_identity() {
  static const std::string identity = [] {
    std::string boot = read_file("/proc/sys/kernel/random/boot_id").value_or("unknown");
    while (!boot.empty() && boot.back() == '\n') boot.pop_back();
    struct stat space{};
    const bool known = ::stat("/proc/self/ns/pid", &space) == 0;
    return fmt::format("{}:{}", boot, known ? space.st_ino : 0);
  }();
  return identity;
}

ProcessStatus process_status(std::int64_t pid) {
  ProcessStatus status;
  if (pid <= 0 || pid > std::numeric_limits<pid_t>::max()) return {.dead = true};
  // EPERM: it lives, as another user.
  status.dead = ::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH;
  const auto text = read_file(fmt::format("/proc/{}/stat", pid));
  if (!text) return status;
  // 4711 (any name) S …: the name may hold anything, so fields are counted behind the last parenthesis.
  const std::size_t name_end = text->rfind(')');
  if (name_end == std::string::npos) return status;
  std::istringstream fields(text->substr(name_end + 1));
  std::string state;
  std::string skipped;
  std::uint64_t threads = 0;
  fields >> state;
  for (int field = 4; field < 20; ++field) fields >> skipped;
  fields >> threads >> skipped >> status.starttime;
  // With threads left only the first one has ended.
  if ((state == "Z" || state == "X") && threads <= 1) status.dead = true;
  return status;
}

}  // namespace sessiond
