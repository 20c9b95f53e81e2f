// The commands of the program and their options, declared to CLI11.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>

#include "daemon/cli/command_line.hpp"

namespace sessiond::cli {

// Adds every command to `program`. Parsing stores the command that was given in `chosen`; both must outlive the
// parsing.
void add_commands(CLI::App& program, std::optional<Command>& chosen);

}  // namespace sessiond::cli
