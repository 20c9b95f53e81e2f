// Checks the files beside an agent's transcripts (store::is_beside): logs of sessions and changes of messages. What
// cannot be read in them, what is missing, and what does not belong there.
#include <fmt/format.h>

#include <string_view>

#include "daemon/doctor/examination.hpp"
#include "daemon/doctor/inspect_transcript.hpp"
#include "store/files.hpp"
#include "store/json/raw_json.hpp"
#include "store/names.hpp"

namespace sessiond::doctor {
namespace fs = std::filesystem;
namespace {

// Compares the seqs in a log's lines with their places. A line that a foreign program wrote has a place and no seq.
class LogSeqs {
 public:
  void take(std::string_view line) {
    const auto seq = line.starts_with(R"({"seq":)") && json::int_at(line, "time") && json::string_at(line, "id")
                         ? json::int_at(line, "seq")
                         : std::nullopt;
    if (seq && *seq > place_) {
      if (missing_ == 0) first_ = place_;
      missing_ += *seq - place_;
      place_ = *seq;
    }
    ++place_;
  }
  std::int64_t missing() const { return missing_; }
  std::int64_t first() const { return first_; }

 private:
  std::int64_t place_ = 0;
  std::int64_t missing_ = 0;
  std::int64_t first_ = 0;  // the seq of the first line that is missing
};

class FolderCheck {
 public:
  FolderCheck(Examination& exam, const std::string& agent, std::string_view kind)
      : exam_(exam),
        kind_(kind),
        folder_(ledger::dir_beside(exam.paths, agent, kind)),
        dir_((exam.paths.root() / folder_).parent_path()) {}

  void run() {
    const auto status = store::stat_of(dir_);
    if (!status) return;
    if (!S_ISDIR(status->st_mode)) {
      exam_.fault({Level::error, kind_, dir_.native(), fmt::format("is no folder, so no {} can be written", what()),
                   fmt::format("run: mv '{0}' '{0}.damaged'; or doctor --repair", dir_.native())},
                  [&] { return exam_.move_away(dir_); });
      return;
    }
    ModeCheck modes(exam_);
    modes.look(dir_, *status);
    std::vector<std::string> unknown;
    for (const Listed& file : list_dir(exam_, kind_, dir_)) {
      if (exam_.cancelled()) return;
      modes.look(dir_ / file.name, file.status);
      if (is_ours(file.name))
        look_at(file);
      else if (!check_beside(exam_, dir_, file))
        unknown.push_back(file.name);
    }
    modes.tell(dir_);
    tell_foreign(exam_, dir_, unknown);
    exam_.report.ok(kind_, dir_.native(),
                    fmt::format("{} file{} with {}, {} lines, {}", count_, count_ == 1 ? "" : "s", what(), lines_,
                                in_bytes(bytes_)));
  }

 private:
  bool is_log() const { return kind_ == "logs"; }
  std::string_view what() const { return is_log() ? "logs of sessions" : "changes of messages"; }

  bool is_ours(std::string_view name) const {
    constexpr std::string_view ending = ".jsonl";
    if (!name.ends_with(ending)) return false;
    name.remove_suffix(ending.size());
    if (!is_log()) name = name.substr(0, name.find("-topic-"));
    return store::check_session_id(name).has_value();
  }

  void look_at(const Listed& file) {
    const fs::path path = dir_ / file.name;
    if (check_kind(exam_, path, file.status)) return;
    LogSeqs seqs;
    const auto state = inspect_transcript(path, exam_.options.cancel, [&](std::string_view line) { seqs.take(line); });
    if (!state) {
      if (state.error().code == Code::draining || !store::stat_of(path)) return;  // it went with its session meanwhile
      exam_.report.error(kind_, path.native(), state.error().detail,
                         "make it a regular file that the daemon's user can read; check the disk");
      return;
    }
    ++count_;
    lines_ += state->entries;
    bytes_ += state->size;
    if (const std::uint64_t unreadable = state->unreadable + state->blank; unreadable > 0)
      exam_.report.warning(
          kind_, path.native(),
          fmt::format("{} of {} lines cannot be read{}", unreadable, state->entries,
                      state->unreadable == 0 ? ""
                                             : fmt::format(", the first is line {} at offset {}",
                                                           state->first_unreadable, state->first_offset)),
          is_log() ? "nothing is removed: these lines are shown as type \"unreadable\", all others as they are"
                   : "archives and forks show those messages unchanged: make the changes again");
    if (is_log() && seqs.missing() > 0)
      exam_.report.warning(kind_, path.native(),
                           fmt::format("{} line{} missing, from seq {}", seqs.missing(),
                                       seqs.missing() == 1 ? " is" : "s are", seqs.first()),
                           "bring the file back from a backup that has them, while no daemon runs");
    tell_end(path, file, *state);
  }

  void tell_end(const fs::path& path, const Listed& file, const TranscriptState& state) {
    if (exam_.daemon_running) return;
    if (state.size == 0)
      exam_.report.warning(kind_, path.native(), "is empty",
                           "the machine may have crashed before the file was on disk: the next start writes the lines "
                           "that the journal has");
    // A program may still be writing it.
    if (state.torn_bytes == 0 || (age_ms(file.status) < 5'000 && !exam_.repair)) return;
    exam_.fault(
        {Level::warning, kind_, path.native(), fmt::format("ends in a torn line ({})", in_bytes(state.torn_bytes)),
         "the next line that is written completes it from the journal or cuts it off into a file beside it; "
         "doctor --repair cuts it off now"},
        [&] { return mend_last_line(path); });
  }

  Examination& exam_;
  std::string kind_;
  std::string folder_;
  fs::path dir_;
  std::uint64_t count_ = 0;
  std::uint64_t lines_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace

void check_files_beside(Examination& exam, const std::string& agent) {
  for (const std::string_view kind : ledger::folders_beside) FolderCheck(exam, agent, kind).run();
}

}  // namespace sessiond::doctor
