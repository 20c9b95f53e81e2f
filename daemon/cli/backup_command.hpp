// sessiond backup and sessiond restore. The report goes to stdout (or the archive), everything else to stderr; the
// answer is the exit code.
#pragma once

#include <string>

#include "daemon/cli/token_command.hpp"

namespace sessiond {

// Of the running daemon, which is asked over its socket; without one, of its files, under the state lock.
struct BackupCommand {
  Where where{};
  std::string to{};  // a directory that is absent or empty, or "-": a tar archive on stdout
};
// Offline. The state directory is exchanged for the restored one in one step; the old one is kept beside it.
struct RestoreCommand {
  Where where{};
  std::string from{};        // a backup directory, a tar archive, or "-"
  bool force = false;        // the state directory is not empty
  bool keep_tokens = false;  // the present ones, not those of the backup
};

int run(const BackupCommand& command);   // 0 done and whole, 1 failed, 2 wrong usage
int run(const RestoreCommand& command);  // 0, 1, 2 as the doctor judges what was restored; 2: nothing was

}  // namespace sessiond
