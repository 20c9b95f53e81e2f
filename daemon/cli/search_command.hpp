// sessiond search WORDS: what people, agents and tools said, the newest first. On a terminal each hit stands between
// the messages before and behind it; in a pipe, or with --json, it is one line of JSON. run() returns the exit code.
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
  std::optional<std::string> agent{}, key{}, channel{}, role{}, from{};
  std::optional<std::int64_t> within_ms{};  // of now; nothing: of any age
  bool archived = false;                    // archived ones, too
  std::int64_t limit = 20;
  std::int64_t context = 1;  // messages on each side of a hit, on a terminal
};

int run(const SearchCommand& command);

}  // namespace sessiond::cli
