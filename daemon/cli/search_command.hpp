// sessiond search WORDS: what people, agents and tools said, the newest first. With --json what the daemon answers.
// run() returns the exit code.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/cli/session_command.hpp"

namespace sessiond::cli {

struct SearchCommand {
  Asked asked{};
  std::vector<std::string> words{};
  std::optional<std::string> agent{}, channel{}, role{};
  std::optional<std::int64_t> within_ms{};  // of now; nothing: of any age
  bool archived = false;                    // archived ones, too
  std::int64_t limit = 20;
};

int run(const SearchCommand& command);

}  // namespace sessiond::cli
