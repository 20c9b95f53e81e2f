// Transcripts against entries: which file is whose, which is nobody's, and what in each can be read.
#include <fmt/format.h>

#include <map>
#include <set>
#include <string_view>

#include "daemon/doctor/examination.hpp"
#include "daemon/doctor/inspect_transcript.hpp"
#include "daemon/ledger/agent_state.hpp"
#include "daemon/ledger/session.hpp"
#include "store/names.hpp"

namespace sessiond::doctor {
namespace fs = std::filesystem;
namespace {

// Sidecars of the runtime that end alike.
bool is_transcript(std::string_view name) { return name.ends_with(".jsonl") && !name.ends_with(".trajectory.jsonl"); }

class TranscriptCheck {
 public:
  TranscriptCheck(Examination& exam, const fs::path& dir) : exam_(exam), dir_(dir) {}

  void take_entries(const std::vector<NamedEntry>& entries) {
    for (const NamedEntry& named : entries) {
      if (json::kind(*named.entry) != json::Kind::object) continue;
      const Session session(named.key, named.entry);
      if (session.session_id.empty()) continue;
      session_ids_.insert(session.session_id);
      owners_.emplace(AgentState::file_of(session, std::nullopt), session.session_id);
    }
  }

  void run(const std::vector<Listed>& files) {
    for (const Listed& file : files) {
      if (exam_.cancelled()) return;
      if (file.name.contains(".jsonl.reset.") || file.name.contains(".jsonl.deleted.")) ++archives_;
      if (!is_transcript(file.name)) continue;
      present_.insert(file.name);
      look_at(file);
    }
    tell_missing();
    exam_.report.ok("transcripts", dir_.native(),
                    fmt::format("{} transcripts ({} without a header), {} entries, {}; {} archived", count_, headless_,
                                entries_, in_bytes(bytes_), archives_));
  }

 private:
  void look_at(const Listed& file) {
    const fs::path path = dir_ / file.name;
    const auto state = inspect_transcript(path, exam_.options.cancel);
    if (!state) {
      if (state.error().code == Code::draining) return;
      // Archived or written anew meanwhile.
      struct stat now{};
      if (::lstat(path.c_str(), &now) != 0 || now.st_size < file.status.st_size) return;
      exam_.report.error("transcript", path.native(), state.error().detail,
                         "make it a plain file that the daemon's user can read; check the disk");
      return;
    }
    ++count_;
    entries_ += state->entries;
    bytes_ += state->size;
    headless_ += state->has_header ? 0 : 1;
    tell_state(path, file, *state);
    tell_owner(path, file, *state);
  }

  void tell_state(const fs::path& path, const Listed& file, const TranscriptState& state) {
    if (state.size == 0) {
      if (!exam_.daemon_running)
        exam_.report.warning("transcript", path.native(), "is empty",
                             "the machine may have gone down before it was on disk: lines that the journal has come "
                             "back with the next start");
      return;
    }
    if (state.unreadable > 0)
      exam_.report.warning(
          "transcript", path.native(),
          fmt::format("{} of {} lines cannot be read, the first is line {} at offset {}", state.unreadable,
                      state.entries + (state.has_header ? 1 : 0), state.first_unreadable, state.first_offset),
          "nothing is cut: all other entries are served, these as type \"unreadable\"");
    if (state.blank > 0)
      exam_.report.warning("transcript", path.native(), fmt::format("{} blank lines", state.blank),
                           "they are served as type \"unreadable\"");
    // Whoever writes it right now has not finished.
    const bool in_flight = exam_.daemon_running || age_ms(file.status) < 5'000;
    if (state.torn_bytes > 0 && !in_flight)
      exam_.report.warning("transcript", path.native(),
                           fmt::format("ends in a torn line ({})", in_bytes(state.torn_bytes)),
                           "the next append completes it from the journal or cuts it off into a file beside it");
  }

  void tell_owner(const fs::path& path, const Listed& file, const TranscriptState& state) {
    const auto owner = owners_.find(file.name);
    if (owner == owners_.end() && !is_topic_of_session(file.name)) {
      const bool known = !state.header_id.empty() && session_ids_.contains(state.header_id);
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
      exam_.report.warning("transcript", path.native(), fmt::format("its header is of session {}", state.header_id),
                           "it was copied or renamed; its entries are served all the same");
  }

  bool is_topic_of_session(std::string_view file) const {
    for (std::size_t at = file.find("-topic-"); at != std::string_view::npos; at = file.find("-topic-", at + 1)) {
      const std::string id(file.substr(0, at));
      if (session_ids_.contains(id) && topic_of_file(id, file)) return true;
    }
    return false;
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

  Examination& exam_;
  const fs::path& dir_;
  std::map<std::string, std::string, std::less<>> owners_{};  // transcript -> session id
  std::set<std::string, std::less<>> session_ids_{};
  std::set<std::string, std::less<>> present_{};
  std::uint64_t count_ = 0;
  std::uint64_t headless_ = 0;
  std::uint64_t entries_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t archives_ = 0;
};

}  // namespace

void check_transcripts(Examination& exam, const fs::path& dir, const std::vector<Listed>& files,
                       const std::vector<NamedEntry>& entries) {
  TranscriptCheck check(exam, dir);
  check.take_entries(entries);
  check.run(files);
}

}  // namespace sessiond::doctor
