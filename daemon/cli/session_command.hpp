// sessiond sessions list|show|reset|archive|unarchive|delete|restore|prune, sessiond locks, sessiond paths: asks a
// running daemon, over its unix socket or at --url. Tables and fields for people, --json for scripts. The result goes
// to stdout, everything else to stderr. run() returns the exit code.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "daemon/cli/token_command.hpp"

namespace sessiond::cli {

// The exit codes of these commands.
enum class Exit : std::uint8_t {
  done = 0,
  failed = 1,  // refused, or something went wrong; stderr says what
  // 2: wrong usage
  not_there = 4,  // the session, agent or lock
  no_daemon = 5,  // none answers
};

// The daemon that is asked.
struct Asked {
  Where where{};
  std::optional<std::string> url{};         // http://host:port; nothing: the unix socket
  std::optional<std::string> token_file{};  // with url: a file that holds the token
  bool json = false;                        // print what the daemon answers
};

// A session: its key, or its session id together with --agent.
struct NamedSession {
  std::string key{};
  std::optional<std::string> agent{};  // nothing: the one in the key, else main
};

struct SessionsList {
  Asked asked{};
  std::optional<std::string> agent{}, channel{}, text{};
  bool archived = false;
  std::int64_t limit = 50;
};
struct SessionsShow {
  Asked asked{};
  NamedSession session{};
};
// reset, archive, unarchive, delete, restore: one request about one session.
struct SessionsChange {
  enum class What : std::uint8_t { reset, archive, unarchive, remove, restore };
  Asked asked{};
  NamedSession session{};
  What what = What::reset;
  bool purge = false;                     // remove: destroy its transcripts
  std::optional<std::string> archived{};  // restore: one of its archives; nothing: the newest
};
struct SessionsPrune {
  Asked asked{};
  std::optional<std::string> agent{};
  std::optional<std::int64_t> keep{}, older_than_ms{}, max_disk_bytes{};
  bool yes = false;  // else only named
};
struct LocksCommand {
  Asked asked{};
  std::optional<std::string> evict{};       // the agent whose lock is removed; nothing: locks are listed
  std::optional<std::string> transcript{};  // with evict: that of this file
};
struct PathsCommand {
  Asked asked{};
  std::optional<std::string> agent{}, session{}, topic{};
};

int run(const SessionsList& command);
int run(const SessionsShow& command);
int run(const SessionsChange& command);
int run(const SessionsPrune& command);
int run(const LocksCommand& command);
int run(const PathsCommand& command);

}  // namespace sessiond::cli
