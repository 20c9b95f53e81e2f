// One run of the doctor: what its checks share, and the checks. Each writes what it finds into the report; a check that
// knows how to settle a fault says so where it finds it, so that a repair settles just what is reported.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/doctor/doctor.hpp"
#include "daemon/doctor/report.hpp"
#include "daemon/ledger/paths.hpp"
#include "store/sessions/sessions_file.hpp"

namespace sessiond::doctor {

// journal/CHECKPOINT: up to which seq the files hold the journal's events.
struct CheckpointFile {
  std::string epoch{};
  std::uint64_t seq = 0;
  std::map<std::string, std::uint64_t> agents{};

  std::uint64_t reached(const std::string& agent) const {
    const auto found = agents.find(agent);
    return found == agents.end() ? seq : found->second;
  }
};

struct Examination {
  explicit Examination(const DoctorOptions& wanted, bool settle = false)
      : options(wanted), repair(settle), paths(wanted.state_dir, wanted.path_template) {}

  const DoctorOptions& options;
  const bool repair;  // settle what can safely be settled (repair.hpp)
  Paths paths;
  Report report{};
  uid_t owner = 0;              // of the state directory
  bool daemon_running = false;  // it may be writing while we look
  std::int64_t daemon_pid = 0;

  // What a start with --repair makes good again.
  bool damaged_journal = false;
  bool lost_lines = false;                    // transcripts lack entries: the whole journal is gone through again
  std::vector<std::string> damaged_stores{};  // agents

  // What the journal says, for the checks after it; nothing: there is none, or it was not to be read.
  std::optional<std::uint64_t> head{};  // its last seq
  std::optional<CheckpointFile> checkpoint{};
  // Do the files lack events of this agent that the next start brings?
  bool lags(const std::string& agent) const { return head && (!checkpoint || checkpoint->reached(agent) < *head); }

  using Mend = std::function<Result<Step>()>;  // settles a fault; `action` is filled in by fault()
  // With `repair` the fault is settled and that is told, else the finding. What could not be settled is an error.
  void fault(Finding finding, const Mend& mend);
  // Moves a file to where repairs keep what they take away: journal/kept/<time>/<its path below the state directory>.
  Result<std::filesystem::path> put_away(const std::filesystem::path& path);
  // Keeps a file there that is about to be replaced by rename: a second name of it, or a copy.
  Result<std::filesystem::path> keep_copy(const std::filesystem::path& path);

  bool cancelled() const { return options.cancel != nullptr && options.cancel->load(); }

 private:
  Result<std::filesystem::path> place_to_keep(const std::filesystem::path& path);

  std::filesystem::path kept_{};  // where this run puts things away; made when the first is
};

void examine(Examination& exam);  // all of the checks, in order

// False: there is nothing that could be looked at.
bool check_place(Examination& exam);  // the directory itself, its file system and its daemon
void check_tokens(Examination& exam);
void check_journal(Examination& exam);
void check_agents(Examination& exam);
void check_gateways(Examination& exam);  // programs of the OpenClaw family that may write here

// Files of one folder whose mode or owner is not as we write them (0600, directories 0700), gathered into few findings.
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
  std::size_t open_ = 0;  // of them, those that others can reach
  std::size_t foreign_ = 0;
  std::string foreign_example_{};
};

struct Listed {
  std::string name;
  struct stat status{};
};
// A folder's entries by name. What disappears meanwhile is left out; a folder that cannot be read is an error in the
// report, an absent one is empty.
std::vector<Listed> list_dir(Examination& exam, std::string_view check, const std::filesystem::path& dir);

// sessions.json.lock or <transcript>.jsonl.lock beside `target`.
void check_lock(Examination& exam, const std::filesystem::path& target);
// Something else than a file where a file of ours is expected: true, and told. A repair moves it away.
bool check_kind(Examination& exam, const std::filesystem::path& path, const struct stat& status);
// A temporary file: in flight while the process lives whose pid stands in its name, else left by a crash.
void check_temporary(Examination& exam, const std::filesystem::path& path, const struct stat& status);

// The transcripts among the files of an agent's folder; without `entries` it is not said whose they are.
void check_transcripts(Examination& exam, const std::string& agent, const std::vector<Listed>& files,
                       const std::optional<std::vector<NamedEntry>>& entries);
// Which transcript is whose: file -> session id.
std::map<std::string, std::string, std::less<>> transcript_owners(const std::vector<NamedEntry>& entries);
// Sidecars of the runtime end alike.
bool is_transcript(std::string_view name);

std::string in_bytes(std::uint64_t bytes);  // "1.5 MiB"
std::string in_time(std::int64_t ms);       // "3 min"
std::int64_t age_ms(const struct stat& status);

}  // namespace sessiond::doctor
