// sessiond deliveries: answers on their way to a channel; retry ID sends one that has failed after all, drop ID gives
// one up. With --json what the daemon answers. run() returns the exit code.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "daemon/cli/session_command.hpp"

namespace sessiond::cli {

struct DeliveriesCommand {
  Asked asked{};
  std::optional<std::string> action{};  // retry or drop; nothing: list
  std::optional<std::string> id{};
  std::optional<std::string> status{}, channel{};
  std::int64_t limit = 20;
};

int run(const DeliveriesCommand& command);

}  // namespace sessiond::cli
