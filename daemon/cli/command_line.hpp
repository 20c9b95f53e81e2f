// The command line: arguments to one typed command, or to a text and an exit code (--help, mistakes). The only place
// that knows CLI11.
#pragma once

#include <span>
#include <string>
#include <variant>

#include "daemon/cli/backup_command.hpp"
#include "daemon/cli/config_command.hpp"
#include "daemon/cli/token_command.hpp"
#include "daemon/serve/serve.hpp"

namespace sessiond {

struct VersionCommand {};

using Command = std::variant<ServeOptions, TokenCreate, TokenList, TokenRotate, TokenRevoke, ConfigShow, ConfigCheck,
                             ConfigDefaults, DoctorCommand, BackupCommand, RestoreCommand, VersionCommand>;

// Nothing to run: a text is to be printed, help on stdout (0), a mistake with a hint on stderr (2).
struct Answered {
  int exit_code = 0;
  std::string out{};
  std::string err{};
};

// Without the program's name.
std::variant<Command, Answered> parse_command_line(std::span<const std::string> arguments);

// Parses and runs; the process's exit code. 1 also when stdout could not be written.
int run_command_line(int argc, char** argv);

}  // namespace sessiond
