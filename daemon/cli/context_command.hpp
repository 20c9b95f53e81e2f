// sessiond context KEY: how full a model's window is, and what a compaction would summarise. With --json what the
// daemon answers. run() returns the exit code.
#pragma once

#include <optional>
#include <string>

#include "daemon/cli/session_command.hpp"

namespace sessiond::cli {

struct ContextCommand {
  Asked asked{};
  NamedSession session{};
  std::optional<std::string> topic{};
};

int run(const ContextCommand& command);

}  // namespace sessiond::cli
