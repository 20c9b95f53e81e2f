// sessiond export KEY: prints a session as a document. sessiond export DIR --layout cli: writes all sessions of an
// agent into the folder of a command-line agent: index.json, last_session and one <id>.json each. sessiond export
// [KEY] --to PROGRAM -o DIR: writes sessions as files of another program (formats/folder_writer.hpp). run() returns
// the exit code.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/cli/asking.hpp"
#include "daemon/cli/session_command.hpp"

namespace sessiond::cli {

struct ExportCommand {
  Asked asked{};
  // The session's key or id; with a layout the folder. `to`: also a prefix of keys and '*'; empty: all of the agent.
  std::string what{};
  std::optional<std::string> agent{}, layout{}, topic{}, out{};
  std::optional<std::string> to{}, cwd{};
  std::string format = "json";
  bool entry = false;  // jsonl: with all that an import needs
  bool force = false;  // `to`: files that are there are replaced
};

int run(const ExportCommand& command);

// The parts of it that stand in files of their own.
constexpr auto export_patience = std::chrono::minutes(10);
// Calls `take` with each session of an agent whose key begins so, newest first, as a list shows it.
Answer<void> each_session(const Endpoint& daemon, const std::string& agent, const std::string& prefix,
                          const std::function<Answer<void>(std::string_view session)>& take);
Answer<int> export_to(const Endpoint& daemon, const ExportCommand& command);  // the exit code

}  // namespace sessiond::cli
