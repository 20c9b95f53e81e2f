// Parses the command line into one typed command, or into a text and an exit code (--help, mistakes). Only
// command_line.cpp, commands.cpp and option_checks.hpp use CLI11.
#pragma once

#include <span>
#include <string>
#include <variant>

#include "daemon/cli/approvals_command.hpp"
#include "daemon/cli/backup_command.hpp"
#include "daemon/cli/completion.hpp"
#include "daemon/cli/config_command.hpp"
#include "daemon/cli/context_command.hpp"
#include "daemon/cli/deliveries_command.hpp"
#include "daemon/cli/export_command.hpp"
#include "daemon/cli/import_command.hpp"
#include "daemon/cli/last_command.hpp"
#include "daemon/cli/runs_command.hpp"
#include "daemon/cli/search_command.hpp"
#include "daemon/cli/session_command.hpp"
#include "daemon/cli/token_command.hpp"
#include "daemon/serve/serve.hpp"

namespace sessiond::cli {

struct VersionCommand {};

using Command =
    std::variant<serve::ServeOptions, TokenCreate, TokenList, TokenRotate, TokenRevoke, ConfigShow, ConfigCheck,
                 ConfigDefaults, DoctorCommand, BackupCommand, RestoreCommand, SessionsList, SessionsShow,
                 SessionsChange, SessionsPrune, ContextCommand, LastCommand, ResumeCommand, ForkCommand, RunsCommand,
                 ApprovalsCommand, DeliveriesCommand, ExportCommand, ImportCommand, LocksCommand, PathsCommand,
                 SearchCommand, CompletionCommand, VersionCommand>;

// There is no command to run, only text to print: help on stdout (0), or a mistake with a hint on stderr (2).
struct Answered {
  int exit_code = 0;
  std::string out{};
  std::string err{};
};

// `arguments` do not include the program's name.
std::variant<Command, Answered> parse_command_line(std::span<const std::string> arguments);

// Returns every command and option there is.
CommandWords command_words();

// Parses and runs a command. Returns the process's exit code: 1 also when stdout could not be written.
int run_command_line(int argc, char** argv);

}  // namespace sessiond::cli
