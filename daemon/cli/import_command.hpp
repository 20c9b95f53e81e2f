// sessiond import FILE|DIR: reads sessions of other programs, and sends them to a running daemon. run() returns the
// exit code.
#pragma once

#include <optional>
#include <string>

#include "daemon/cli/session_command.hpp"

namespace sessiond::cli {

struct ImportCommand {
  Asked asked{};
  std::string path{};
  std::optional<std::string> agent{};                     // nothing: the one in each session's key, else main
  std::optional<std::string> format{}, layout{}, from{};  // one of them, each a name of import_sources.hpp
  std::string if_exists = "skip";
  bool dry_run = false;
};

int run(const ImportCommand& command);

}  // namespace sessiond::cli
