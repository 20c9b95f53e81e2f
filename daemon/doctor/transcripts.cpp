// Compares transcripts with the entries of sessions.json: which session each belongs to, if any, and what can be read.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "daemon/decide/agent_state.hpp"
#include "daemon/decide/session.hpp"
#include "daemon/doctor/examination.hpp"
#include "daemon/doctor/inspect_transcript.hpp"
#include "store/files.hpp"
#include "store/lock/lock.hpp"
#include "store/names.hpp"
#include "store/try.hpp"
#include "transcripts/archive.hpp"
#include "transcripts/known_ends.hpp"
#include "transcripts/mend.hpp"

namespace sessiond::doctor {
namespace fs = std::filesystem;

bool is_transcript(std::string_view name) { return name.ends_with(".jsonl") && !name.ends_with(".trajectory.jsonl"); }

std::map<std::string, std::string, std::less<>> transcript_owners(const std::vector<sessions::NamedEntry>& entries) {
  std::map<std::string, std::string, std::less<>> owners;
  for (const sessions::NamedEntry& named : entries) {
    if (json::kind(*named.entry) != json::Kind::object) continue;
    const decide::Session session(named.key, named.entry);
    if (!session.session_id.empty())
      owners.emplace(decide::AgentState::file_of(session, std::nullopt), session.session_id);
  }
  return owners;
}

Result<Step> mend_last_line(const fs::path& path) {
  std::vector<lock::Eviction> evictions;
  TRY(const auto lock, lock::FileLock::acquire(path, {.timeout = foreign_lock_wait}, evictions));
  TRY(const auto mended, transcripts::mend_end(path));
  if (!mended) return Step{.path = path.native(), .detail = "was completed by its writer meanwhile"};
  if (mended->torn.empty()) return Step{.path = path.native(), .detail = "added the missing newline to its last line"};
  return Step{
      .path = path.native(),
      .detail = fmt::format("cut off a torn last line at offset {} ({})", mended->offset, in_bytes(mended->bytes)),
      .kept = mended->torn.native()};
}

namespace {

class TranscriptCheck {
 public:
  TranscriptCheck(Examination& exam, const std::string& agent)
      : exam_(exam), agent_(agent), dir_(exam.paths.store_file(agent).parent_path()) {}

  void take_entries(const std::vector<sessions::NamedEntry>& entries) {
    owners_known_ = true;
    owners_ = transcript_owners(entries);
    for (const auto& [file, id] : owners_) sessions_.try_emplace(id);
    for (const sessions::NamedEntry& named : entries) {
      if (json::kind(*named.entry) != json::Kind::object) continue;
      const std::int64_t count = decide::Session(named.key, named.entry).entries();
      const auto found = sessions_.find(json::string_at(*named.entry, "sessionId").value_or(""));
      if (found != sessions_.end()) found->second.counted = std::max(found->second.counted, count);
    }
  }

  void run(const std::vector<Listed>& files) {
    for (const Listed& file : files) {
      if (exam_.cancelled()) return;
      const auto named = transcripts::parse_file_name(file.name);
      const bool archived = named && named->kind == transcripts::NamedFile::Kind::archive;
      // The file that a link leads to is not examined. AgentCheck says whether the link is allowed.
      if (S_ISLNK(file.status.st_mode) && is_transcript(file.name)) present_.insert(file.name);
      if (!S_ISREG(file.status.st_mode) || (!archived && !is_transcript(file.name))) continue;
      look_at(file, archived);
    }
    tell_missing();
    tell_lost();
    tell_lost_topics();
    exam_.report.ok(
        "transcripts", dir_.native(),
        fmt::format("{} transcripts ({} without a header, {} without a last newline), {} entries, {}; {} "
                    "archived, {}",
                    count_, headless_, unended_, entries_, in_bytes(bytes_), archives_, in_bytes(archived_bytes_)));
    if (old_ > 0)
      exam_.report.ok("transcripts", dir_.native(),
                      fmt::format("{} of version 1 or 2, or with flat or bare lines: served as they are; doctor "
                                  "--migrate writes them as version 3",
                                  old_));
  }

 private:
  // The entries that the transcripts of a session id hold, topics included, and those that they should hold.
  struct Held {
    std::int64_t counted = 0;  // entryCount
    std::int64_t found = 0;
    std::size_t files = 0;
  };

  void look_at(const Listed& file, bool archived) {
    if (archived) ++archives_;
    if (!archived) present_.insert(file.name);
    const fs::path path = dir_ / file.name;
    const auto state = inspect_transcript(path, exam_.options.cancel, [&](std::string_view line) {
      exam_.note_names(line, policy::NamedBy::message, path);
    });
    if (!state) {
      if (state.error().code == Code::draining) return;
      // It was archived or rewritten meanwhile.
      const auto now = store::stat_of(path);
      if (!now || now->st_size < file.status.st_size) return;
      exam_.report.error("transcript", path.native(), state.error().detail,
                         "make it a regular file that the daemon's user can read; check the disk");
      return;
    }
    if (archived) {
      archived_bytes_ += state->size;
      return tell_unreadable(path, *state);
    }
    ++count_;
    entries_ += state->entries;
    bytes_ += state->size;
    headless_ += state->has_header ? 0 : 1;
    old_ += state->old > 0 || (state->has_header && state->version < 3) ? 1 : 0;
    if (const auto held = sessions_.find(session_of(file.name)); held != sessions_.end()) {
      ++held->second.files;
      if (!store::is_stream_file(held->first, file.name))
        held->second.found += static_cast<std::int64_t>(state->entries);
    }
    tell_unreadable(path, *state);
    tell_end(path, file, *state);
    tell_owner(path, file, *state);
  }

  void tell_unreadable(const fs::path& path, const TranscriptState& state) {
    if (state.unreadable > 0)
      exam_.report.warning(
          "transcript", path.native(),
          fmt::format("{} of {} lines cannot be read, the first is line {} at offset {}{}", state.unreadable,
                      state.entries + (state.has_header ? 1 : 0), state.first_unreadable, state.first_offset,
                      state.first_unreadable == 1 ? ", which should be the header" : ""),
          "nothing is removed: these lines are served as type \"unreadable\", all others as they are");
    if (state.blank > 0)
      exam_.report.warning("transcript", path.native(), fmt::format("{} blank lines", state.blank),
                           "they are served as type \"unreadable\"");
  }

  void tell_end(const fs::path& path, const Listed& file, const TranscriptState& state) {
    if (state.size == 0) {
      if (!exam_.daemon_running)
        exam_.report.warning("transcript", path.native(), "is empty",
                             "the machine may have crashed before the file was on disk: the next start writes the "
                             "lines that the journal has");
      return;
    }
    if (state.ends_in_newline) return;
    if (state.torn_bytes == 0) {
      ++unended_;  // the next append writes the missing newline first
      if (exam_.repair)
        exam_.fault({.check = "transcript", .path = path.native(), .detail = "has no last newline"},
                    [&] { return mend_last_line(path); });
      return;
    }
    // A program is still writing it.
    if (exam_.daemon_running || (age_ms(file.status) < 5'000 && !exam_.repair)) return;
    exam_.fault({Level::warning, "transcript", path.native(),
                 fmt::format("ends in a torn line ({})", in_bytes(state.torn_bytes)),
                 "the next append completes it from the journal or cuts it off into a file beside it; doctor "
                 "--repair cuts it off now"},
                [&] { return mend_last_line(path); });
  }

  void tell_owner(const fs::path& path, const Listed& file, const TranscriptState& state) {
    const auto owner = owners_.find(file.name);
    if (owners_known_ && session_of(file.name).empty()) {
      const bool known = !state.header_id.empty() && sessions_.contains(state.header_id);
      exam_.report.warning(
          "orphan", path.native(),
          known ? fmt::format("session {} has an entry, but that names another file ({} entries, {})", state.header_id,
                              state.entries, in_bytes(state.size))
                : fmt::format("no entry in sessions.json has it ({} entries, {})", state.entries, in_bytes(state.size)),
          "keep it as an archive, or make an entry for it: POST /v1/agents/{agent}/sessions with sessionId");
    }
    if (!state.has_header || state.header_id.empty()) return;
    const bool fits =
        file.name.contains(state.header_id) || (owner != owners_.end() && owner->second == state.header_id);
    if (!fits)
      exam_.report.warning("transcript", path.native(), fmt::format("its header names session {}", state.header_id),
                           "it was copied or renamed; its entries are served nevertheless");
  }

  // Returns the session id that the transcript, or topic transcript, belongs to; "" when it belongs to none.
  std::string session_of(std::string_view file) const {
    if (const auto owner = owners_.find(file); owner != owners_.end()) return owner->second;
    for (std::size_t at = file.find("-topic-"); at != std::string_view::npos; at = file.find("-topic-", at + 1)) {
      const std::string id(file.substr(0, at));
      if (sessions_.contains(id) && store::topic_of_file(id, file)) return id;
    }
    return {};
  }

  void tell_missing() {
    std::size_t missing = 0;
    std::string example;
    for (const auto& [file, id] : owners_) {
      if (present_.contains(file)) continue;
      if (missing++ == 0) example = file;
    }
    if (missing > 0)
      exam_.report.ok(
          "transcripts", dir_.native(),
          fmt::format("{} session{} no transcript yet, e.g. {}", missing, missing == 1 ? " has" : "s have", example));
  }

  // Reports entries that entryCount counts and the transcripts lack. Entries that the journal has beyond CHECKPOINT
  // are not missing: the next start writes them.
  void tell_lost() {
    if (exam_.daemon_running || exam_.lags(agent_)) return;
    for (const auto& [id, held] : sessions_) {
      const bool is_link = present_.contains(id + ".jsonl") && held.files == 0;
      if (held.found >= held.counted || is_link) continue;
      exam_.fault(
          {Level::warning, "missing", (dir_ / (id + ".jsonl")).native(),
           held.files == 0 ? fmt::format("is not there, though session {} had {} entries", id, held.counted)
                           : fmt::format("session {} had {} entries, {} are there", id, held.counted, held.found),
           "sessiond doctor --repair brings back what the journal still has. Lines that are missing after "
           "that may be among the files put aside (.torn., .corrupt., journal/kept) or in a backup; "
           "if a foreign program has reset the session, nothing is missing"},
          [&]() -> Result<Step> {
            exam_.lost_lines = true;
            return Step{.path = (dir_ / (id + ".jsonl")).native(),
                        .detail = "the journal is applied again to restore what is missing"};
          });
    }
  }

  // Reports transcripts of topics and streams that the daemon knew and that are not there.
  void tell_lost_topics() {
    if (exam_.daemon_running || exam_.lags(agent_)) return;
    const auto record = store::read_file(exam_.paths.known_ends(agent_));
    if (!record) return;
    for (const std::string& file : transcripts::KnownEnds::lost_in(*record, dir_)) {
      const std::string id = owners_.contains(file) ? "" : session_of(file);
      if (id.empty()) continue;
      exam_.report.warning("missing", (dir_ / file).native(),
                           fmt::format("is not there, though session {} had entries in its {}", id,
                                       store::describe_topic(store::topic_of_file(id, file).value_or(""))),
                           "put the file back; it may be among the files put aside (journal/kept) or in a backup. "
                           "Without it they are lost, and new entries get seqs from 0");
    }
  }

  Examination& exam_;
  const std::string& agent_;
  fs::path dir_;
  bool owners_known_ = false;
  std::map<std::string, std::string, std::less<>> owners_{};  // transcript -> session id
  std::map<std::string, Held, std::less<>> sessions_{};       // by session id
  std::set<std::string, std::less<>> present_{};
  std::uint64_t count_ = 0;
  std::uint64_t headless_ = 0;
  std::uint64_t entries_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t unended_ = 0;
  std::uint64_t old_ = 0;
  std::uint64_t archives_ = 0;
  std::uint64_t archived_bytes_ = 0;
};

}  // namespace

void check_transcripts(Examination& exam, const std::string& agent, const std::vector<Listed>& files,
                       const std::optional<std::vector<sessions::NamedEntry>>& entries) {
  TranscriptCheck check(exam, agent);
  if (entries) check.take_entries(*entries);
  check.run(files);
}

}  // namespace sessiond::doctor
