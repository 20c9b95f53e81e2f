// One run of the doctor: what its checks share, and the checks. Each writes what it finds into the report.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/doctor/doctor.hpp"
#include "daemon/doctor/report.hpp"
#include "daemon/ledger/paths.hpp"
#include "store/sessions_file.hpp"

namespace sessiond::doctor {

struct Examination {
  explicit Examination(const DoctorOptions& wanted)
      : options(wanted), paths(wanted.state_dir, wanted.path_template), report() {}

  const DoctorOptions& options;
  Paths paths;
  Report report;
  uid_t owner = 0;              // of the state directory
  bool daemon_running = false;  // it may be writing while we look
  std::int64_t daemon_pid = 0;

  bool cancelled() const { return options.cancel != nullptr && options.cancel->load(); }
};

// False: there is nothing that could be looked at.
bool check_place(Examination& exam);  // the directory itself, its file system and its daemon
void check_tokens(Examination& exam);
void check_journal(Examination& exam);
void check_agents(Examination& exam);

// Files of one folder whose mode or owner is not as we write them, gathered into two findings.
class ModeCheck {
 public:
  void look(const std::filesystem::path& path, const struct stat& status, uid_t owner);
  void tell(Report& report, const std::filesystem::path& dir) const;

 private:
  std::size_t open_ = 0;
  std::size_t foreign_ = 0;
  std::string open_example_{};
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
// A temporary file: in flight while the process lives whose pid stands in its name, else left by a crash.
void check_temporary(Examination& exam, const std::filesystem::path& path, const struct stat& status);

// The transcripts among the files of an agent's folder.
void check_transcripts(Examination& exam, const std::filesystem::path& dir, const std::vector<Listed>& files,
                       const std::vector<NamedEntry>& entries);

std::string in_bytes(std::uint64_t bytes);  // "1.5 MiB"
std::string in_time(std::int64_t ms);       // "3 min"
std::int64_t age_ms(const struct stat& status);

}  // namespace sessiond::doctor
