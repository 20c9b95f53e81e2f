// Every agent's folder: sessions.json, its lock, what crashes and other programs left beside it.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "daemon/doctor/examination.hpp"
#include "store/files.hpp"
#include "store/lock.hpp"
#include "store/names.hpp"
#include "store/process.hpp"
#include "store/sessions_file_disk.hpp"

namespace sessiond::doctor {
namespace fs = std::filesystem;
namespace {

constexpr std::int64_t long_held_ms = 30'000;  // a lock is held for an exchange, under a second

std::string program_of(std::int64_t pid) {
  auto name = read_file(fmt::format("/proc/{}/comm", pid));
  if (!name) return {};
  while (name->ends_with('\n')) name->pop_back();
  return fmt::format(" ({})", *name);
}

// The first run of digits between dots: <name>.<pid>.<random>.tmp and <name>.lock.<pid>.<random>.
std::optional<std::int64_t> pid_in(std::string_view name) {
  for (std::size_t at = name.find('.'); at != std::string_view::npos; at = name.find('.', at + 1)) {
    std::int64_t pid = 0;
    const char* end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(name.data() + at + 1, end, pid);
    if (error == std::errc() && stop != end && *stop == '.' && pid > 0) return pid;
  }
  return {};
}

bool is_transcript_like(std::string_view name) {
  return name.ends_with(".jsonl") || name.contains(".jsonl.reset.") || name.contains(".jsonl.deleted.");
}

class AgentCheck {
 public:
  AgentCheck(Examination& exam, std::string agent)
      : exam_(exam), agent_(std::move(agent)), store_(exam.paths.store_file(agent_)), dir_(store_.parent_path()) {}

  void run() {
    const auto files = list_dir(exam_, "sessions", dir_);
    ModeCheck modes;
    std::vector<std::string> unknown;
    for (const Listed& file : files) {
      modes.look(dir_ / file.name, file.status, exam_.owner);
      look_at(file, unknown);
    }
    modes.tell(exam_.report, dir_);
    tell_unknown(unknown);
    const auto entries = look_at_store();
    if (entries && !exam_.cancelled()) check_transcripts(exam_, dir_, files, *entries);
  }

 private:
  void look_at(const Listed& file, std::vector<std::string>& unknown) {
    const std::string store_name = store_.filename().native();
    const fs::path path = dir_ / file.name;
    const std::string_view name = file.name;
    if (name == store_name || is_transcript_like(name)) return;
    if (name.ends_with(".lock")) {
      check_lock(exam_, dir_ / name.substr(0, name.size() - std::string_view(".lock").size()));
    } else if (name.ends_with(".tmp") || name.contains(".lock.") || name.contains(".tmp.")) {
      check_temporary(exam_, path, file.status);
    } else if (name.contains(".corrupt.") || name.contains(".torn.") || name.contains(".damaged.")) {
      exam_.report.warning("quarantine", path.native(),
                           fmt::format("put aside {} ago, {}", in_time(age_ms(file.status)),
                                       in_bytes(static_cast<std::uint64_t>(file.status.st_size))),
                           "look whether it holds what is missing elsewhere, then remove it");
    } else if (name.ends_with(".sqlite") || name.ends_with(".db")) {
      exam_.report.warning("foreign_gateway", path.native(),
                           "a database: OpenClaw 2026.8 and later keep sessions there",
                           "let only one of them serve this directory: what such a version writes is not seen here");
    } else {
      unknown.push_back(file.name);
    }
  }

  void tell_unknown(const std::vector<std::string>& unknown) {
    if (unknown.empty()) return;
    constexpr std::size_t shown = 5;
    const auto end = unknown.begin() + static_cast<std::ptrdiff_t>(std::min(shown, unknown.size()));
    exam_.report.ok("foreign_file", dir_.native(),
                    fmt::format("{} not ours and left alone: {}{}", unknown.size(),
                                fmt::join(unknown.begin(), end, ", "), unknown.size() > shown ? ", …" : ""));
  }

  // Nothing: it cannot be said which transcripts belong to a session.
  std::optional<std::vector<NamedEntry>> look_at_store() {
    auto read = read_store(store_);
    const std::string path = store_.native();
    if (!read) {
      exam_.report.error("sessions", path, read.error().detail,
                         "make it a plain file that the daemon's user can read and write");
      return {};
    }
    switch (read->kind) {
      case StoreRead::Kind::absent:
        exam_.report.ok("sessions", path, "none yet");
        return std::vector<NamedEntry>{};
      case StoreRead::Kind::damaged:
        exam_.report.error("sessions", path, fmt::format("is damaged: {}", read->damage),
                           "start sessiond: it is put aside, never overwritten, and rebuilt from journal/previous and "
                           "the journal; transcripts are untouched");
        return {};
      case StoreRead::Kind::good:
        break;
    }
    for (const std::string& oddity : read->oddities)
      exam_.report.warning("sessions", path, oddity,
                           "look which one is meant; sessiond goes on with the file as it is");
    exam_.report.ok("sessions", path,
                    fmt::format("{} entr{}, {}", read->entries.size(), read->entries.size() == 1 ? "y" : "ies",
                                in_bytes(read->snapshot.id.size)));
    return std::move(read->entries);
  }

  Examination& exam_;
  std::string agent_;
  fs::path store_;
  fs::path dir_;
};

// Folders beside the agents' whose names are no agent ids: what is in them is not served.
void check_names(Examination& exam) {
  const std::string& pattern = exam.options.path_template;
  const std::size_t mark = pattern.find("{agentId}");
  if (mark == std::string::npos) return;
  const std::size_t slash = pattern.rfind('/', mark);
  if (slash == std::string::npos) return;  // beside journal/ and our other files anything may lie
  const fs::path dir = exam.options.state_dir / pattern.substr(0, slash);
  for (const Listed& entry : list_dir(exam, "agents", dir)) {
    if (S_ISDIR(entry.status.st_mode) && exam.paths.agent_of_dir(entry.name).empty())
      exam.report.warning("agents", (dir / entry.name).native(), "is no agent id: its sessions are not served",
                          "rename it to [a-z0-9][a-z0-9_-]*, or move it away");
  }
}

}  // namespace

void check_lock(Examination& exam, const fs::path& target) {
  const auto holder = lock_holder(target);
  if (!holder) return;  // released meanwhile
  const std::string path = target.native() + ".lock";
  const std::string age = in_time(holder->age_ms);
  const std::string who = fmt::format("pid {}{}", holder->pid, program_of(holder->pid));
  if (holder->stale) {
    exam.report.warning("lock", path, fmt::format("its holder, pid {}, is gone; {} old", holder->pid, age),
                        "nothing to do: sessiond takes it away when it needs it");
  } else if (holder->pid <= 0) {
    exam.report.warning("lock", path, fmt::format("does not say who holds it; {} old", age),
                        "sessiond takes it away when it has seen it unchanged for store.lock.staleMs");
  } else if (exam.daemon_running && holder->pid == exam.daemon_pid) {
    exam.report.ok("lock", path, fmt::format("held by the daemon for {}", age));
  } else if (process_status(holder->pid).dead) {
    // Not provably gone: it is of another host, or of before a reboot.
    exam.report.warning("lock", path, fmt::format("held by {} of another machine or container; {} old", who, age),
                        "make sure that only one machine writes this directory");
  } else {
    exam.report.warning(
        "foreign_gateway", path,
        fmt::format("held by {}, {}{}", who, age, holder->age_ms > long_held_ms ? ", which is long" : ""),
        "another program writes this directory: set store.mode to \"shared\", or stop it");
  }
}

void check_temporary(Examination& exam, const fs::path& path, const struct stat& status) {
  const auto pid = pid_in(path.filename().native());
  const bool in_flight = pid ? !process_status(*pid).dead : exam.daemon_running && age_ms(status) < 60'000;
  if (in_flight && age_ms(status) < 3'600'000) return;
  exam.report.warning("temporary", path.native(),
                      fmt::format("left by a write that was interrupted {} ago, {}", in_time(age_ms(status)),
                                  in_bytes(static_cast<std::uint64_t>(status.st_size))),
                      "remove it, once no program writes here");
}

void check_agents(Examination& exam) {
  check_names(exam);
  const auto agents = exam.paths.agents();
  if (agents.empty()) exam.report.ok("agents", exam.options.state_dir.native(), "no agent has sessions yet");
  for (const std::string& agent : agents) {
    if (exam.cancelled()) return;
    AgentCheck(exam, agent).run();
  }
}

}  // namespace sessiond::doctor
