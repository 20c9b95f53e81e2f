// Checks the state directory itself: that it exists, that only its owner can access it, its file system, and which
// daemon runs in it.
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "daemon/auth/token_record.hpp"
#include "daemon/doctor/examination.hpp"
#include "daemon/doctor/restores.hpp"
#include "daemon/doctor/state_owner.hpp"
#include "policy/send_policy.hpp"
#include "store/file_system.hpp"
#include "store/files.hpp"

namespace sessiond::doctor {
namespace {

constexpr std::uint64_t mib = 1ULL << 20;

std::string reason(int error) { return std::generic_category().message(error); }

Result<Step> set_mode(const std::string& path, mode_t from, mode_t to) {
  if (::chmod(path.c_str(), to) != 0) return io_fail("chmod", path);
  return Step{.path = path, .detail = fmt::format("mode {:04o}, it was {:04o}", to, from)};
}

bool check_dir(Examination& exam) {
  const std::string& dir = exam.options.state_dir.native();
  struct stat status{};
  if (::stat(dir.c_str(), &status) != 0) {
    exam.report.error("state_dir", dir, reason(errno),
                      "name the right one (--state-dir, SESSIOND_STATE_DIR, or stateDir in the configuration), or "
                      "start sessiond serve, which creates it");
    return false;
  }
  if (!S_ISDIR(status.st_mode)) {
    exam.report.error("state_dir", dir, "is not a directory", "name the directory that holds agents/ and journal/");
    return false;
  }
  exam.owner = status.st_uid;
  const auto mode = status.st_mode & 07777;
  if ((mode & 0077) == 0) {
    exam.report.ok("state_dir", dir, fmt::format("mode {:04o}, uid {}", mode, status.st_uid));
  } else {
    const bool writable = (mode & S_IWOTH) != 0;
    exam.fault({writable ? Level::error : Level::warning, "state_dir", dir,
                fmt::format("{} ({:04o})", writable ? "all users can write here" : "other users can read it", mode),
                "chmod 700 " + dir},
               [&] { return set_mode(dir, mode, 0700); });
  }
  if (::access(dir.c_str(), R_OK | X_OK) != 0) {
    exam.report.error("state_dir", dir, fmt::format("cannot be read by uid {}", ::geteuid()),
                      fmt::format("run the doctor as uid {}", status.st_uid));
    return false;
  }
  return true;
}

void check_daemon(Examination& exam) {
  const std::string lock = state_lock_file(exam.options.state_dir).native();
  if (exam.options.lock_held)
    return exam.report.ok("daemon", lock, "no daemon runs here, and none can start during the repair");
  const auto owner = state_owner(exam.options.state_dir);
  if (!owner) {
    exam.report.error("daemon", lock, owner.error().detail,
                      fmt::format("while no daemon runs, run: mv '{0}' '{0}.damaged'", lock));
    return;
  }
  if (!*owner) {
    exam.report.ok("daemon", lock, "no daemon runs here");
    return;
  }
  exam.daemon_pid = (*owner)->pid;
  switch ((*owner)->state()) {
    case StateOwner::State::alive:
      exam.daemon_running = true;
      exam.report.ok(
          "daemon", lock,
          (*owner)->command.empty() || (*owner)->command == "serve"
              ? fmt::format("running, pid {}", (*owner)->pid)
              : fmt::format("no daemon, but sessiond {} runs here, pid {}", (*owner)->command, (*owner)->pid));
      break;
    case StateOwner::State::gone:
      exam.report.ok("daemon", lock, fmt::format("no daemon runs here; the last one had pid {}", (*owner)->pid));
      break;
    case StateOwner::State::elsewhere:
      // Taken as not running, so what another machine is writing may look torn. Judging by a file's age would be
      // guessing.
      exam.report.ok("daemon", lock,
                     fmt::format("the last one had pid {} before a reboot, in another container or on another machine; "
                                 "taken as not running",
                                 (*owner)->pid));
      break;
  }
}

void check_space(Examination& exam) {
  const std::string& dir = exam.options.state_dir.native();
  struct statvfs space{};
  if (::statvfs(dir.c_str(), &space) != 0) {
    exam.report.error("disk_space", dir, reason(errno), "check the disk");
    return;
  }
  if ((space.f_flag & ST_RDONLY) != 0)
    exam.report.error("file_system", dir, "the file system is mounted read-only", "mount it read-write");
  const std::uint64_t free = static_cast<std::uint64_t>(space.f_bavail) * space.f_frsize;
  const std::uint64_t all = static_cast<std::uint64_t>(space.f_blocks) * space.f_frsize;
  const std::string text = fmt::format("{} free of {}", in_bytes(free), in_bytes(all));
  const std::string advice = "make room: writes are refused (507) when the disk is full";
  if (all != 0 && free < 64 * mib) {
    exam.report.error("disk_space", dir, text, advice);
  } else if (all != 0 && free < 1024 * mib) {
    exam.report.warning("disk_space", dir, text, advice);
  } else {
    exam.report.ok("disk_space", dir, text);
  }
  if (space.f_files != 0 && space.f_favail < 1000)
    exam.report.warning("disk_space", dir, fmt::format("only {} more files can be created", space.f_favail),
                        "the file system runs out of inodes: remove files");
}

struct Kind {
  std::uint64_t magic;
  std::string_view name;
};
// Local file systems that have no RENAME_EXCHANGE.
constexpr std::array without_exchange{
    Kind{MSDOS_SUPER_MAGIC, "FAT"},    Kind{0x2011BAB0, "exFAT"}, Kind{0x5346544E, "NTFS"},
    Kind{0x7366746E, "NTFS"},          Kind{0x482B, "HFS+"},      Kind{ECRYPTFS_SUPER_MAGIC, "eCryptfs"},
    Kind{0x2FC12FC1, "ZFS before 2.2"}};

void check_file_system(Examination& exam) {
  const std::string& dir = exam.options.state_dir.native();
  struct statfs kind{};
  if (::statfs(dir.c_str(), &kind) != 0) {
    exam.report.error("file_system", dir, reason(errno), "check the disk");
    return;
  }
  const auto magic = static_cast<std::uint64_t>(kind.f_type) & 0xFFFFFFFF;
  if (const std::string_view name = store::network_file_system(exam.options.state_dir); !name.empty()) {
    // Locks or renames are not reliable there, or not for all machines that mount it.
    exam.report.warning("file_system", dir,
                        fmt::format("is on {}, where foreign locks and atomic renames may not be reliable", name),
                        "keep the state directory on a local disk");
    return;
  }
  for (const Kind& each : without_exchange) {
    if (each.magic != magic) continue;
    exam.report.warning("file_system", dir,
                        fmt::format("is on {}, which cannot exchange two files in one step: sessions.json is checked "
                                    "and then replaced, and what a foreign program writes in between is lost",
                                    each.name),
                        "let only sessiond write here, or keep the state directory on ext4, xfs, btrfs or tmpfs");
    return;
  }
  if (magic == TMPFS_MAGIC || magic == RAMFS_MAGIC) {
    exam.report.warning("file_system", dir, "is in memory: everything is lost at a reboot",
                        "keep the state directory on a disk, unless that is meant");
    return;
  }
  exam.report.ok("file_system", dir, fmt::format("local, type {:#x}", magic));
}

// Reading tokens.json reveals only hashes, but writing it makes an admin.
void check_secret_file(Examination& exam, const std::string& path) {
  const auto status = store::stat_of(path);
  if (!status || (status->st_mode & 0077) == 0) return;
  const auto mode = status->st_mode & 07777;
  const bool writable = (mode & (S_IWGRP | S_IWOTH)) != 0;
  exam.fault({writable ? Level::error : Level::warning, "tokens", path,
              fmt::format("other users can {} it ({:04o})", writable ? "write" : "read", mode),
              fmt::format("chmod 600 {}{}", path,
                          writable ? "; check sessiond token list for tokens that you did not make" : "")},
             [&] { return set_mode(path, mode, 0600); });
}

// Returns the content of a file that may be absent. Reports it when it cannot be read.
std::optional<std::string> read_or_tell(Examination& exam, std::string_view check, const std::string& path) {
  auto text = store::read_file(path);
  if (text) return std::move(*text);
  if (text.error().code != Code::not_found)
    exam.report.error(check, path, text.error().detail,
                      fmt::format("make it readable for the daemon's user; or run: mv '{0}' '{0}.damaged'", path));
  return {};
}

}  // namespace

bool check_place(Examination& exam) {
  for (Finding& left : find_left_restores(exam.options.state_dir)) exam.report.add(std::move(left));
  if (!check_dir(exam)) return false;
  check_daemon(exam);
  check_space(exam);
  check_file_system(exam);
  return true;
}

void check_tokens(Examination& exam) {
  for (const Listed& file : list_dir(exam, "state_dir", exam.options.state_dir)) {
    const bool ours = file.name.starts_with("tokens.json.") || file.name.starts_with("policy.json.");
    if (ours && file.name.ends_with(".tmp")) check_temporary(exam, exam.options.state_dir / file.name, file.status);
  }
  const std::string tokens = (exam.options.state_dir / "tokens.json").native();
  if (const auto text = read_or_tell(exam, "tokens", tokens)) {
    check_secret_file(exam, tokens);
    if (const auto records = auth::parse_tokens(*text)) {
      exam.report.ok("tokens", tokens, fmt::format("{} token{}", records->size(), records->size() == 1 ? "" : "s"));
    } else {
      exam.report.error("tokens", tokens, fmt::format("is damaged: {}", records.error().detail),
                        fmt::format("no client can log in until it is repaired. To begin with a new admin token, which "
                                    "the next start makes, run: mv '{0}' '{0}.damaged'",
                                    tokens));
    }
  }
  const std::string policy = (exam.options.state_dir / "policy.json").native();
  if (const auto text = read_or_tell(exam, "policy", policy)) {
    if (const auto parsed = policy::parse_send_policy(*text, ""); !parsed)
      exam.report.error(
          "policy", policy, parsed.error().detail,
          fmt::format("repair it. To use the rules of the configuration instead, run: mv '{0}' '{0}.damaged'", policy));
  }
}

}  // namespace sessiond::doctor
