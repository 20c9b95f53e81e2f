// sessiond export KEY: prints a session as a document. sessiond export DIR --layout cli: writes all sessions of an
// agent into the folder of a command-line agent: index.json, last_session and one <id>.json each. run() returns the
// exit code.
#pragma once

#include <optional>
#include <string>

#include "daemon/cli/session_command.hpp"

namespace sessiond::cli {

struct ExportCommand {
  Asked asked{};
  std::string what{};  // the session's key or id; with a layout the folder
  std::optional<std::string> agent{}, layout{}, topic{}, out{};
  std::string format = "json";
  bool entry = false;  // jsonl: with all that an import needs
};

int run(const ExportCommand& command);

}  // namespace sessiond::cli
