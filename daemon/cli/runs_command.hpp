// sessiond runs KEY: the runs of a session; with --abort it stops the active one, or the waiting one that --run names.
// With --json what the daemon answers. run() returns the exit code.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "daemon/cli/session_command.hpp"

namespace sessiond::cli {

struct RunsCommand {
  Asked asked{};
  NamedSession session{};
  std::optional<std::string> run_id{};
  bool abort = false;
  std::int64_t limit = 20;
};

int run(const RunsCommand& command);

}  // namespace sessiond::cli
