// sessiond last: the key of the session that was used last. sessiond resume: what there is to go on with. sessiond
// fork: a session that begins as another one did. With --json what the daemon answers. run() returns the exit code.
#pragma once

#include <optional>
#include <string>

#include "daemon/cli/session_command.hpp"

namespace sessiond::cli {

struct LastCommand {
  Asked asked{};
  std::optional<std::string> agent{}, client{};
};
struct ResumeCommand {
  Asked asked{};
  std::optional<std::string> key{}, agent{}, client{};  // without a key: the session that was used last
};
struct ForkCommand {
  Asked asked{};
  NamedSession session{};
  std::optional<std::string> message{}, key{}, name{};
};

int run(const LastCommand& command);
int run(const ResumeCommand& command);
int run(const ForkCommand& command);

}  // namespace sessiond::cli
