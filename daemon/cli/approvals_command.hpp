// sessiond approvals: the tools that runs wait to be allowed. On a terminal it asks about each, and about new ones as
// they come; `sessiond approvals ID allow` answers one. With --json what the daemon answers. run() returns the exit
// code.
#pragma once

#include <optional>
#include <string>

#include "daemon/cli/session_command.hpp"

namespace sessiond::cli {

struct ApprovalsCommand {
  Asked asked{};
  std::optional<std::string> id{};
  std::string decision{};  // of that one: allow, allow-session or deny
  std::optional<std::string> reason{};
  bool list = false;  // do not ask on a terminal
};

int run(const ApprovalsCommand& command);

}  // namespace sessiond::cli
