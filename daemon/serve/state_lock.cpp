#include "daemon/serve/state_lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <sstream>
#include <thread>
#include <utility>
#include <variant>

#include "daemon/doctor/state_owner.hpp"
#include "store/clock.hpp"
#include "store/confine.hpp"
#include "store/try.hpp"

namespace sessiond::serve {
namespace fs = std::filesystem;
namespace {

constexpr std::chrono::milliseconds poll_interval{50};  // a blocking flock could not report a new holder

struct Holder {
  std::int64_t pid = 0;
  std::string command{};  // program and first argument, for people
  bool daemon = false;

  std::string text() const {
    if (pid == 0) return "a process that cannot be seen from here";
    return fmt::format("pid {} ({})", pid, command.empty() ? "a program that cannot be read" : command);
  }
};

// Returns the pid of the flock's holder from /proc/locks ("7: FLOCK ADVISORY WRITE 4711 fe:01:131130 0 EOF"); 0 when
// the holder is in another pid namespace.
std::int64_t pid_of_flock(int fd) {
  struct stat status{};
  const auto text = store::read_file("/proc/locks");
  if (!text || ::fstat(fd, &status) != 0) return 0;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string number, kind, advisory, access, file;
    std::int64_t pid = 0;
    fields >> number >> kind >> advisory >> access >> pid >> file;
    if (kind == "FLOCK" && pid > 0 && file.ends_with(fmt::format(":{}", status.st_ino))) return pid;
  }
  return 0;
}

// Returns the program and first argument of a process, from /proc/<pid>/cmdline.
std::pair<std::string, std::string> program_of(std::int64_t pid) {
  std::string text = store::read_file(fmt::format("/proc/{}/cmdline", pid)).value_or("");
  const std::size_t end = text.find('\0');
  if (end == std::string::npos) return {};
  const auto printable = [](std::string word) {
    std::ranges::replace_if(word, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }, '?');
    return word.substr(0, 60);
  };
  std::string first = text.substr(end + 1, text.find('\0', end + 1) - end - 1);
  return {printable(fs::path(text.substr(0, end)).filename()), printable(std::move(first))};
}

// Identifies the holder. The file can still have the line of the previous holder, until the new one has written its
// own; so its line counts only if its pid is the one that the kernel names.
Holder holder_of(int fd, const fs::path& state_dir) {
  const auto owner = doctor::state_owner(state_dir);
  const bool told = owner && *owner && (*owner)->state() != doctor::StateOwner::State::gone;
  Holder holder{.pid = pid_of_flock(fd)};
  if (told && (holder.pid == 0 || holder.pid == (*owner)->pid)) {
    holder.pid = (*owner)->pid;
    holder.command = (*owner)->command;
  }
  if (!holder.command.empty()) {
    holder.daemon = holder.command == "serve";
    holder.command = "sessiond " + holder.command;
    return holder;
  }
  const auto [program, argument] = program_of(holder.pid);
  holder.daemon = program.starts_with("sessiond") && argument == "serve";
  holder.command = argument.empty() ? program : program + " " + argument;
  return holder;
}

// Whether the path still names this file: it does not when the file was removed and created anew.
bool still_there(int fd, const fs::path& path) {
  struct stat held{};
  struct stat named{};
  return ::fstat(fd, &held) == 0 && ::lstat(path.c_str(), &named) == 0 && held.st_ino == named.st_ino &&
         held.st_dev == named.st_dev;
}

int take(int fd) {
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

Result<void> sign(int fd, const fs::path& path, std::string_view command) {
  if (::ftruncate(fd, 0) != 0) return std::unexpected(io_problem("truncate", path.native(), errno));
  return store::write_all_at(fd, doctor::to_json(doctor::this_process(store::unix_ms(), command)), 0, path.native());
}

// Returns the lock, or its holder.
Result<std::variant<store::Fd, Holder>> try_lock(const fs::path& state_dir, std::string_view command) {
  const fs::path path = doctor::state_lock_file(state_dir);
  for (;;) {
    TRY(auto fd, store::open_file(path, O_RDWR | O_CREAT));
    const int error = take(fd.get());
    if (error == EWOULDBLOCK) return holder_of(fd.get(), state_dir);
    if (error != 0) return std::unexpected(io_problem("lock", path.native(), error));
    if (!still_there(fd.get(), path)) continue;
    // On a full disk this fails. The lock is held all the same; only its owner cannot be named.
    if (auto signed_ = sign(fd.get(), path, command); !signed_ && signed_.error().code != Code::storage_full)
      return std::unexpected(signed_.error());
    return std::move(fd);
  }
}

std::unexpected<Problem> taken_by(const fs::path& state_dir, const Holder& holder) {
  return fail(Code::degraded, fmt::format("state directory {} is in use by {}", state_dir.native(), holder.text()));
}

}  // namespace

Result<StateLock> StateLock::acquire(const fs::path& state_dir, std::string_view command) {
  TRY(auto tried, try_lock(state_dir, command));
  if (const auto* holder = std::get_if<Holder>(&tried)) return taken_by(state_dir, *holder);
  return StateLock(std::move(std::get<store::Fd>(tried)));
}

Result<StateLock> StateLock::acquire_for_daemon(const fs::path& state_dir,
                                                const std::function<void(const std::string& holder)>& waiting) {
  for (std::string told;;) {
    TRY(auto tried, try_lock(state_dir, "serve"));
    if (auto* fd = std::get_if<store::Fd>(&tried)) return StateLock(std::move(*fd));
    const Holder& holder = std::get<Holder>(tried);
    if (holder.daemon) return taken_by(state_dir, holder);
    if (std::string text = holder.text(); std::exchange(told, text) != text) waiting(text);
    std::this_thread::sleep_for(poll_interval);
  }
}

Result<StateLock> lock_stores(const fs::path& root) {
  TRY(store::make_dirs(root));
  TRY(auto lock, StateLock::acquire(root, "serve"));
  TRY(store::confine_below(root));
  return lock;
}

Result<void> check_user(const fs::path& state_dir) {
  struct stat status{};
  if (::lstat(doctor::state_lock_file(state_dir).c_str(), &status) != 0 && ::stat(state_dir.c_str(), &status) != 0)
    return {};
  if (status.st_uid == ::geteuid()) return {};
  return fail(Code::degraded, fmt::format("{} belongs to uid {}: run this as that user (e.g. sudo -u '#{}' sessiond …)",
                                          state_dir.native(), status.st_uid, status.st_uid));
}

}  // namespace sessiond::serve
