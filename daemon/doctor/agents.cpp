// Checks every agent's folder: sessions.json, its lock, and what crashes and foreign programs left beside it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>

#include "daemon/doctor/examination.hpp"
#include "store/clock.hpp"
#include "store/files.hpp"
#include "store/lock/lock.hpp"
#include "store/lock/lock_file.hpp"
#include "store/names.hpp"
#include "store/process.hpp"
#include "store/seal/sealed.hpp"
#include "store/sessions/disk.hpp"
#include "store/try.hpp"
#include "transcripts/archive.hpp"

namespace sessiond::doctor {
namespace fs = std::filesystem;
namespace {

constexpr std::int64_t long_held_ms = 30'000;  // a lock is held while a file is replaced: less than a second

std::string program_of(std::int64_t pid) {
  auto name = store::read_file(fmt::format("/proc/{}/comm", pid));
  if (!name) return {};
  while (name->ends_with('\n')) name->pop_back();
  return fmt::format(" ({})", *name);
}

// Returns the pid in <name>.<pid>.<random>.tmp and <name>.lock.<pid>.<random>: the first digits between two dots.
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
  const auto holds = [name](std::string_view part) { return name.contains(part); };
  return name.ends_with(".jsonl") || holds(".jsonl.reset.") || holds(".jsonl.deleted.") || holds(".jsonl.pruned.");
}

class AgentCheck {
 public:
  AgentCheck(Examination& exam, std::string agent)
      : exam_(exam),
        agent_(std::move(agent)),
        store_(exam.paths.store_file(agent_)),
        dir_(store_.parent_path()),
        beside_{dir_ / "changes", dir_ / "logs"} {}

  void run() {
    if (auto below = store::resolve_below(exam_.paths.root(), exam_.paths.sessions_dir(agent_)); !below) {
      exam_.report.error("agents", dir_.native(), below.error().detail,
                         "it is not served: put the files themselves there");
      return;
    }
    if (const auto note = sessions::read_note(generations().note)) unsettled_ = note->temp;
    const auto files = list_dir(exam_, "sessions", dir_);
    ModeCheck modes(exam_);
    if (const auto status = store::stat_of(dir_)) modes.look(dir_, *status);
    std::vector<std::string> unknown;
    for (const Listed& file : files) {
      modes.look(dir_ / file.name, file.status);
      look_at(file, unknown);
    }
    modes.tell(dir_);
    tell_foreign(exam_, dir_, unknown);
    const auto entries = look_at_store();
    if (entries)
      for (const sessions::NamedEntry& named : *entries) exam_.note_names(*named.entry, policy::NamedBy::entry, store_);
    if (!exam_.cancelled()) check_transcripts(exam_, agent_, files, entries);
    if (!exam_.cancelled()) check_files_beside(exam_, agent_);
  }

 private:
  sessions::GenerationFiles generations() const { return sessions::GenerationFiles(exam_.paths.previous(agent_)); }

  void look_at(const Listed& file, std::vector<std::string>& unknown) {
    const std::string store_name = store_.filename().native();
    const fs::path path = dir_ / file.name;
    const std::string_view name = file.name;
    if (is_transcript_like(name) && S_ISLNK(file.status.st_mode) && is_file_within(path)) {
      exam_.report.ok("symlink", path.native(), "leads to a file in the state directory");
      return;
    }
    const bool ours = name == store_name || is_transcript_like(name) || S_ISLNK(file.status.st_mode);
    if (ours && check_kind(exam_, path, file.status)) {
      if (name == store_name) exam_.damaged_stores.push_back(agent_);
      told_ = told_ || name == store_name;
      return;
    }
    if (name == store_name) return;
    if (!unsettled_.empty() && name.starts_with(unsettled_)) {
      exam_.report.ok("temporary", path.native(), "left by an interrupted checkpoint: the next start removes it");
      return;
    }
    const bool passing = name.ends_with(".lock") || store::is_passing(name);
    if (!passing && is_transcript_like(name)) {
      if (name.ends_with(transcripts::entry_suffix)) note_entry(path);
    } else if (check_beside(exam_, dir_, file)) {
      return;
    } else if (name.ends_with(".sqlite") || name.ends_with(".db")) {
      exam_.report.warning(
          "foreign_gateway", path.native(), "a database: OpenClaw 2026.8 and later keep sessions there",
          "let only one of them serve this directory: sessiond does not read what such a version writes");
    } else if (std::ranges::find(beside_, path) == beside_.end()) {
      unknown.push_back(file.name);
    }
  }

  // Returns whether a daemon follows this link, as store::stat_within does where the directory is confined.
  bool is_file_within(const fs::path& path) const {
    std::error_code error;
    if (!fs::is_regular_file(path, error)) return false;
    const fs::path real = fs::canonical(path, error);
    const std::string below = real.lexically_relative(fs::canonical(exam_.paths.root(), error)).native();
    return !error && !below.starts_with("..") && store::may_be_linked(below);
  }

  // Notes the blobs that the entry beside an archive names.
  void note_entry(const fs::path& path) {
    auto stored = store::read_file(path);
    if (!stored) return;
    if (const auto text = seal::open_if_sealed(std::move(*stored), transcripts::entry_place(path.native())))
      exam_.note_names(*text, policy::NamedBy::entry, path);
  }

  // Nothing when it is not known which transcript belongs to which session.
  std::optional<std::vector<sessions::NamedEntry>> look_at_store() {
    if (told_) return {};
    auto read = sessions::read_store(store_);
    const std::string path = store_.native();
    if (!read) {
      exam_.report.error("sessions", path, read.error().detail,
                         "make it a regular file that the daemon's user can read and write");
      return {};
    }
    switch (read->kind) {
      case sessions::StoreRead::Kind::absent:
        tell_absent();
        return std::vector<sessions::NamedEntry>{};
      case sessions::StoreRead::Kind::damaged:
        if (may_be_written_now(*read)) return {};
        tell_damaged(read->damage);
        return {};
      case sessions::StoreRead::Kind::good:
        break;
    }
    for (const std::string& oddity : read->oddities)
      exam_.report.warning("sessions", path, oddity, "find out which one is right; sessiond uses the file as it is");
    exam_.report.ok("sessions", path,
                    fmt::format("{} entr{}, {}", read->entries.size(), read->entries.size() == 1 ? "y" : "ies",
                                in_bytes(read->snapshot.id.size)));
    look_at_revs(read->entries);
    return std::move(read->entries);
  }

  // How many entries the earlier generations in journal/previous hold, the newest one first.
  std::optional<std::size_t> earlier_entries() const {
    for (const fs::path& file : {generations().current, generations().previous})
      if (const auto read = sessions::read_store(file); read && read->kind == sessions::StoreRead::Kind::good)
        return read->entries.size();
    return {};
  }

  void tell_absent() {
    const auto earlier = earlier_entries();
    const bool is_there = store::stat_of(dir_).has_value();
    const bool named = exam_.checkpoint && exam_.checkpoint->agents.contains(agent_) &&
                       (!is_there || exam_.checkpoint->written.contains(agent_));
    if (!transcripts::holds_sessions(dir_) && (named || earlier.value_or(0) != 0)) {
      exam_.report.error(
          "sessions", dir_.native(),
          fmt::format("the folder is {}; {}", is_there ? "empty" : "gone",
                      earlier ? fmt::format("an earlier generation has {} entries", *earlier)
                              : std::string("CHECKPOINT names the agent")),
          "if it is on a volume that is not mounted, mount it: sessiond answers 503 for this agent, writes nothing "
          "there and notices the folder by itself. Else stop sessiond and run sessiond doctor --repair: what the "
          "journal "
          "has is rebuilt, and entries that it has not are shown as unreadable. To remove an agent, first delete its "
          "sessions (DELETE, or put {} in its sessions.json), then its folder");
      exam_.damaged_stores.push_back(agent_);
      exam_.lost_lines = exam_.lost_lines || exam_.repair;
      return;
    }
    if (earlier.value_or(0) == 0) return exam_.report.ok("sessions", store_.native(), "none yet");
    exam_.report.error(
        "sessions", store_.native(), fmt::format("is missing; an earlier generation has {} entries", *earlier),
        "start sessiond, or doctor --repair: it is rebuilt from that generation and the journal. To remove "
        "an agent, first delete its sessions (DELETE, or put {} in its sessions.json), then its folder");
    exam_.damaged_stores.push_back(agent_);
  }

  // Reports a store that is not whole and has changed only now: a program may be writing it in place.
  bool may_be_written_now(const sessions::StoreRead& read) {
    constexpr std::int64_t ns_in_ms = 1'000'000;
    const std::int64_t age = store::unix_ms() - read.snapshot.id.ctime_ns / ns_in_ms;
    if (age < 0 || age >= exam_.options.damage_after.count()) return false;
    exam_.report.warning(
        "sessions", store_.native(),
        fmt::format("is not whole ({}), and was changed {} ms ago: a program may be writing it in place", read.damage,
                    age),
        fmt::format("run the doctor again: it is damaged if it has not changed for {} ms (store.damageAfterMs)",
                    exam_.options.damage_after.count()));
    return true;
  }

  void tell_damaged(const std::string& damage) {
    const auto earlier = earlier_entries();
    if (earlier) exam_.damaged_stores.push_back(agent_);
    exam_.report.error(
        "sessions", store_.native(), fmt::format("is damaged: {}", damage),
        earlier ? "start sessiond, or doctor --repair: it is put aside, never overwritten, and rebuilt from an earlier "
                  "generation and the journal; transcripts are untouched"
                : "there is no earlier generation to rebuild it from: put a copy of your own there before sessiond "
                  "starts; transcripts are untouched");
  }

  // A rev is the seq of an event in the journal.
  void look_at_revs(const std::vector<sessions::NamedEntry>& entries) {
    if (!exam_.head || exam_.daemon_running) return;
    std::size_t ahead = 0;
    std::string example;
    for (const sessions::NamedEntry& named : entries) {
      const auto rev = json::int_at(*named.entry, "rev");
      if (rev && *rev > 0 && static_cast<std::uint64_t>(*rev) > *exam_.head && ahead++ == 0)
        example = fmt::format("{} has {}", named.key, *rev);
    }
    if (ahead == 0) return;
    exam_.report.error("checkpoint", store_.native(),
                       fmt::format("{} of {} entries have a rev above the journal's last seq {}, e.g. {}", ahead,
                                   entries.size(), *exam_.head, example),
                       "the end of the journal was lost, or store and journal are from different copies: put the "
                       "right journal back if there is one; else start once with sessiond serve --repair, or "
                       "run sessiond doctor --repair: the journal continues above that seq, in a new epoch");
    exam_.damaged_journal = true;
  }

  Examination& exam_;
  std::string agent_;
  fs::path store_;
  fs::path dir_;
  // Of the store's folder, where that is not called sessions.
  std::array<fs::path, ledger::folders_beside.size()> beside_;
  bool told_ = false;        // something other than a file in the place of sessions.json was reported
  std::string unsettled_{};  // the temporary file of a checkpoint that was under way, by its note
};

// Reports folders beside the agents' whose names are no agent ids: what is in them is not served.
void check_names(Examination& exam) {
  const fs::path dir = exam.paths.agents_dir();
  // The agents share their folder with journal/ and more, so other names are expected there.
  if (dir == exam.options.state_dir) return;
  ModeCheck modes(exam);
  if (const auto status = store::stat_of(dir)) modes.look(dir, *status);
  for (const Listed& entry : list_dir(exam, "agents", dir)) {
    if (S_ISDIR(entry.status.st_mode)) modes.look(dir / entry.name, entry.status);
    if (S_ISDIR(entry.status.st_mode) && exam.paths.agent_of_dir(entry.name).empty())
      exam.report.warning("agents", (dir / entry.name).native(), "is not an agent id: its sessions are not served",
                          "rename it to [a-z0-9][a-z0-9_-]*, or move it away");
  }
  modes.tell(dir);
}

// Says why it is not known whether the holder lives; "" when it is known.
std::string elsewhere(std::string_view host) {
  if (host.empty() || store::where_ran(host, false) == store::Host::here) return {};
  const auto without_namespace = [](std::string_view text) { return text.substr(0, text.rfind(':')); };
  if (without_namespace(store::host_identity()).ends_with(without_namespace(host)))
    return "in another container (pid namespace) of this machine";
  return "on another machine, or before a reboot";
}

// Removes a lock only when its holder is provably gone (store/lock/README.md).
Result<Step> free_lock(const fs::path& target) {
  std::vector<lock::Eviction> evictions;
  TRY(const auto lock, lock::FileLock::acquire(target, {.timeout = std::chrono::milliseconds(1000)}, evictions));
  Step step{.path = target.native() + ".lock", .detail = "was released meanwhile"};
  if (!evictions.empty())
    step.detail = fmt::format("removed: {}; its content was {}", evictions[0].reason, evictions[0].holder);
  return step;
}

}  // namespace

void check_lock(Examination& exam, const fs::path& target) {
  const auto holder = lock::lock_holder(target);
  if (!holder) return;  // released meanwhile
  const std::string path = target.native() + ".lock";
  const std::string age = in_time(holder->age_ms);
  const std::string who = fmt::format("pid {}{}", holder->pid, program_of(holder->pid));
  const std::string where = elsewhere(lock::read_lock_payload(holder->payload).host);
  if (holder->stale) {
    exam.fault({Level::warning, "lock", path, fmt::format("its holder, pid {}, is gone; {} old", holder->pid, age),
                "nothing to do: sessiond removes it when it needs the lock, doctor --repair does so now"},
               [&] { return free_lock(target); });
  } else if (!where.empty()) {
    exam.report.warning("foreign_gateway", path, fmt::format("held by pid {} {}; {} old", holder->pid, where, age),
                        "its pid cannot be checked from here: run all programs that write here in one pid namespace of "
                        "one machine. If it is gone, sessiond removes the lock after store.lock.staleMs");
  } else if (holder->pid <= 0) {
    exam.report.warning("lock", path, fmt::format("does not name its holder; {} old", age),
                        "sessiond removes it when it stays unchanged for store.lock.staleMs");
  } else if (exam.daemon_running && holder->pid == exam.daemon_pid) {
    exam.report.ok("lock", path, fmt::format("held by the daemon for {}", age));
  } else {
    exam.report.warning(
        "foreign_gateway", path,
        fmt::format("held by {}, {}{}", who, age, holder->age_ms > long_held_ms ? ", which is long" : ""),
        "a foreign program writes this directory: set store.mode to \"shared\", or stop the program");
  }
}

void check_temporary(Examination& exam, const fs::path& path, const struct stat& status) {
  const auto pid = pid_in(path.filename().native());
  const bool in_flight = pid ? !store::process_status(*pid).dead : exam.daemon_running && age_ms(status) < 60'000;
  if (in_flight && age_ms(status) < 3'600'000) return;
  exam.fault({Level::warning, "temporary", path.native(),
              fmt::format("left by a write that was interrupted {} ago, {}", in_time(age_ms(status)),
                          in_bytes(static_cast<std::uint64_t>(status.st_size))),
              "remove it when no program writes here; doctor --repair moves it away"},
             [&] { return exam.move_away(path); });
}

bool check_beside(Examination& exam, const fs::path& dir, const Listed& file) {
  const std::string_view name = file.name;
  const fs::path path = dir / file.name;
  if (name.ends_with(".lock")) {
    check_lock(exam, dir / name.substr(0, name.size() - std::string_view(".lock").size()));
  } else if (store::is_passing(name)) {
    check_temporary(exam, path, file.status);
  } else if (name.contains(".corrupt.") || name.contains(".torn.") || name.contains(".damaged.")) {
    exam.report.warning(
        "quarantine", path.native(),
        fmt::format("put aside {} ago, {}", in_time(age_ms(file.status)),
                    in_bytes(static_cast<std::uint64_t>(file.status.st_size))),
        fmt::format("check whether it has anything that is missing elsewhere, then run: rm -r '{}'", path.native()));
  } else {
    return false;
  }
  return true;
}

void tell_foreign(Examination& exam, const fs::path& dir, const std::vector<std::string>& names) {
  if (names.empty()) return;
  constexpr std::size_t shown = 5;
  const auto end = names.begin() + static_cast<std::ptrdiff_t>(std::min(shown, names.size()));
  exam.report.ok("foreign_file", dir.native(),
                 fmt::format("{} foreign and not changed: {}{}", names.size(), fmt::join(names.begin(), end, ", "),
                             names.size() > shown ? ", …" : ""));
}

bool check_kind(Examination& exam, const fs::path& path, const struct stat& status) {
  if (S_ISREG(status.st_mode)) return false;
  std::string what = S_ISDIR(status.st_mode) ? "is a folder, but a file is expected" : "is not a regular file";
  const bool link = S_ISLNK(status.st_mode);
  if (link) {
    const bool inside =
        store::resolve_below(exam.paths.root(), path.lexically_relative(exam.paths.root()).native()).has_value() ||
        store::resolve_below(exam.options.state_dir, path.lexically_relative(exam.options.state_dir).native())
            .has_value();
    std::error_code error;
    what = fmt::format("leads to {}{}", fs::read_symlink(path, error).native(),
                       inside ? "" : ", which is not in the state directory");
  }
  exam.fault({Level::error, link ? "symlink" : "kind", path.native(), std::move(what),
              "put the file itself there; or sessiond doctor --repair, which moves it to journal/kept"},
             [&] { return exam.move_away(path); });
  return true;
}

void check_databases(Examination& exam) {
  for (const fs::path& path : exam.paths.databases())
    exam.report.error("sqlite", path.native(),
                      "a database in which OpenClaw 2026.8 or later keeps sessions: sessiond does not see them",
                      "serve another state directory (--state-dir), or start with sessiond serve --ignore-sqlite to "
                      "serve the JSON stores beside it");
}

void check_agents(Examination& exam) {
  check_names(exam);
  check_databases(exam);
  auto agents = exam.paths.agents();
  for (std::string& agent : exam.paths.kept_agents())  // agents whose folder may be gone
    if (std::ranges::find(agents, agent) == agents.end()) agents.push_back(std::move(agent));
  if (exam.checkpoint)
    for (const auto& [agent, seq] : exam.checkpoint->agents)
      if (std::ranges::find(agents, agent) == agents.end()) agents.push_back(agent);
  if (agents.empty()) exam.report.ok("agents", exam.options.state_dir.native(), "no agent has sessions yet");
  for (const std::string& agent : agents) {
    if (exam.cancelled()) return;
    AgentCheck(exam, agent).run();
  }
}

}  // namespace sessiond::doctor
