// One run of the doctor: the state that its checks share, and the checks. Each check writes its findings into the
// report. A check that can repair a fault passes the repair to fault() together with the finding, so report and repair
// cannot disagree.
#pragma once

#include <sys/stat.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/doctor/doctor.hpp"
#include "daemon/doctor/report.hpp"
#include "daemon/ledger/paths.hpp"
#include "policy/media.hpp"
#include "store/sessions/sessions_file.hpp"

namespace sessiond::doctor {

inline constexpr std::chrono::milliseconds foreign_lock_wait{2000};  // until whoever writes a transcript lets it go

// journal/CHECKPOINT: the files hold the journal's events up to `seq`, and those of an agent up to `agents`.
struct CheckpointFile {
  std::string epoch{};
  std::uint64_t seq = 0;
  std::map<std::string, std::uint64_t> agents{};
  std::set<std::string> written{};  // agents whose store was written

  std::uint64_t reached(const std::string& agent) const {
    const auto found = agents.find(agent);
    return found == agents.end() ? seq : found->second;
  }
};

struct Examination {
  explicit Examination(const DoctorOptions& wanted, bool with_repair = false)
      : options(wanted), repair(with_repair), paths(wanted.state_dir, wanted.path_template) {}

  const DoctorOptions& options;
  const bool repair;  // repair what can be repaired safely (repair.hpp)
  ledger::Paths paths;
  Report report{};
  uid_t owner = 0;              // uid of the state directory
  bool daemon_running = false;  // it may write during the examination
  std::int64_t daemon_pid = 0;

  // Faults that opening the ledger as `serve --repair` does will repair.
  bool damaged_journal = false;
  bool lost_lines = false;                    // transcripts lack entries: the whole journal is applied again
  std::vector<std::string> damaged_stores{};  // ids of agents

  // Set by check_journal for the checks after it; nothing when there is no journal or it is not readable.
  std::optional<std::uint64_t> head{};  // its last seq
  std::optional<CheckpointFile> checkpoint{};
  // Whether the next start will bring events of this agent from the journal into its files.
  bool lags(const std::string& agent) const { return head && (!checkpoint || checkpoint->reached(agent) < *head); }

  // The blobs that are named by what was read, each with the first file that names it. check_blobs looks for them.
  std::map<std::string, std::filesystem::path, std::less<>> named_blobs{};
  void note_names(std::string_view text, policy::NamedBy by, const std::filesystem::path& file);

  using Mend = std::function<Result<Step>()>;  // repairs a fault; fault() fills in `action`
  // Reports a fault. With `repair`, repairs it and reports the step instead; an error when the repair fails.
  void fault(Finding finding, const Mend& mend);
  // Moves a file to journal/kept/<time>/<its path below the state directory>. Returns the new path.
  Result<std::filesystem::path> put_away(const std::filesystem::path& path);
  Result<Step> move_away(const std::filesystem::path& path);  // the same as the step of a repair
  // Keeps a file that is about to be replaced by rename in the same place, as a hard link or a copy. Returns its path.
  Result<std::filesystem::path> keep_copy(const std::filesystem::path& path);

  bool cancelled() const { return options.cancel != nullptr && options.cancel->load(); }

 private:
  Result<std::filesystem::path> place_to_keep(const std::filesystem::path& path);

  std::filesystem::path kept_{};  // the folder of this run; created when the first file is put away
};

void examine(Examination& exam);  // runs all checks, in order

// Returns false when there is nothing to examine.
bool check_place(Examination& exam);  // the directory itself, its file system and its daemon
void check_tokens(Examination& exam);
void check_journal(Examination& exam);
void check_agents(Examination& exam);
void check_blobs(Examination& exam);       // blobs, and what names one that is not there
void check_search(Examination& exam);      // the index of what was said
void check_encryption(Examination& exam);  // files that are not sealed, though there is a key file
void check_gateways(Examination& exam);    // foreign programs of the OpenClaw family that may write here

// Checks that the files of one folder have the mode and owner that the daemon gives them (0600, folders 0700). Makes
// few findings of all deviations.
class ModeCheck {
 public:
  explicit ModeCheck(Examination& exam) : exam_(exam) {}
  void look(const std::filesystem::path& path, const struct stat& status);
  void tell(const std::filesystem::path& dir);

 private:
  struct Wrong {
    std::filesystem::path path{};
    mode_t mode = 0;
  };
  Result<Step> correct(const std::filesystem::path& dir) const;

  Examination& exam_;
  std::vector<Wrong> wrong_{};
  std::size_t open_ = 0;  // how many of them other users can access
  std::size_t foreign_ = 0;
  std::string foreign_example_{};
};

struct Listed {
  std::string name;
  struct stat status{};
};
// Returns a folder's entries, by name. An absent folder has none; a folder that cannot be read is reported as an error.
std::vector<Listed> list_dir(Examination& exam, std::string_view check, const std::filesystem::path& dir);

// The files of journal/ beside the segments. `obstacles`: paths that are reported already.
void check_journal_files(Examination& exam, const std::vector<Listed>& files,
                         const std::set<std::filesystem::path>& obstacles);
// Checks the lock of `target`: sessions.json.lock or <transcript>.jsonl.lock.
void check_lock(Examination& exam, const std::filesystem::path& target);
// Reports when something other than a regular file is where the daemon expects its file; a repair moves it away.
// Returns whether it was reported.
bool check_kind(Examination& exam, const std::filesystem::path& path, const struct stat& status);
// Checks a temporary file: it is in use while the process in its name lives, else a crash has left it.
void check_temporary(Examination& exam, const std::filesystem::path& path, const struct stat& status);
// Checks what may stand beside transcripts and logs: locks, temporary files, and what was put aside. Returns false when
// the file is none of them.
bool check_beside(Examination& exam, const std::filesystem::path& dir, const Listed& file);
// Names files that are not the daemon's.
void tell_foreign(Examination& exam, const std::filesystem::path& dir, const std::vector<std::string>& names);

// Checks the transcripts among the files of an agent's folder. `entries` are those of sessions.json; nothing when they
// are not known, and then transcripts without a session are not reported.
void check_transcripts(Examination& exam, const std::string& agent, const std::vector<Listed>& files,
                       const std::optional<std::vector<sessions::NamedEntry>>& entries);
// Checks the files beside an agent's transcripts: logs of sessions, changes of messages.
void check_files_beside(Examination& exam, const std::string& agent);
// Mends the end of a transcript or log. Holds its lock, so that no foreign program appends meanwhile.
Result<Step> mend_last_line(const std::filesystem::path& path);
// Returns the session id of each transcript file.
std::map<std::string, std::string, std::less<>> transcript_owners(const std::vector<sessions::NamedEntry>& entries);
// Whether a file name is that of a transcript. Sidecar files of OpenClaw, which also end in .jsonl, are not.
bool is_transcript(std::string_view name);

std::string in_bytes(std::uint64_t bytes);  // "1.5 MiB"
std::string in_time(std::int64_t ms);       // "3 min"
std::int64_t age_ms(const struct stat& status);

}  // namespace sessiond::doctor
