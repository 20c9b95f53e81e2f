// The process that holds a state directory, as <stateDir>/sessiond.lock names it:
//   {"pid","startedAt":<ms>,"starttime":<field 22 of /proc/<pid>/stat>,
//    "host":"<machine id>:<boot id>:<pid namespace>","command":"serve"}
// Version 0.1.0 wrote no command. The file remains when the process ends: the flock on it decides who holds the
// directory (daemon/serve/state_lock.hpp). Reading the file takes no lock, so it never keeps a daemon from starting.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "store/problem.hpp"

namespace sessiond::doctor {

struct StateOwner {
  std::int64_t pid = 0;
  std::int64_t started_at = 0;  // ms since the epoch
  std::uint64_t starttime = 0;
  std::string host{};
  std::string command{};  // the subcommand: "serve", "backup", …

  enum class State : std::uint8_t {
    alive,
    gone,
    elsewhere,  // on another machine, in another pid namespace or before a reboot: unknown
  };
  State state() const;
};

std::filesystem::path state_lock_file(const std::filesystem::path& state_dir);
std::string to_json(const StateOwner& owner);  // one line with '\n'
StateOwner this_process(std::int64_t now_ms, std::string_view command = "serve");

// Returns the process that wrote the lock file last; nothing when there is no file or it is not readable.
Result<std::optional<StateOwner>> state_owner(const std::filesystem::path& state_dir);

}  // namespace sessiond::doctor
