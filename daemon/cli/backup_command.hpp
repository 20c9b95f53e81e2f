// sessiond backup and sessiond restore. The report, or the archive, goes to stdout, everything else to stderr. run()
// returns the exit code.
#pragma once

#include <string>

#include "daemon/cli/token_command.hpp"

namespace sessiond::cli {

// Asks the running daemon over its socket; without a daemon, reads the files under the state lock.
struct BackupCommand {
  Where where{};
  std::string to{};  // a directory that is absent or empty, or "-": a tar archive on stdout
};
// Works while no daemon runs. Exchanges the state directory for the restored one in one step, and keeps the old one
// beside it.
struct RestoreCommand {
  Where where{};
  std::string from{};        // a backup directory, a tar archive, or "-"
  bool force = false;        // replaces a state directory that is not empty
  bool keep_tokens = false;  // keeps the present tokens instead of those of the backup
};

int run(const BackupCommand& command);  // 0 complete, 1 failed, 2 wrong usage
int run(
    const RestoreCommand& command);  // the doctor's exit code for the restored state; 2 also when nothing was restored

}  // namespace sessiond::cli
