// `sessiond serve`: starts the daemon, and runs it until SIGTERM or SIGINT. Exit codes: 0 stopped by a signal, 1 could
// not start, 3 the state directory is in use by another daemon.
#pragma once

#include <optional>
#include <string>

namespace sessiond::serve {

struct ServeOptions {
  std::optional<std::string> config;     // --config
  std::optional<std::string> state_dir;  // --state-dir, overrides the configuration
  std::optional<std::string> listen{};   // --listen, overrides listen.tcp
  bool demo = false;    // a state directory that is made, played with and removed (daemon/cli/demo.hpp)
  bool repair = false;  // start with a damaged journal: put the damage aside, begin a new epoch
  bool ignore_sqlite =
      false;  // serve beside databases of OpenClaw 2026.8 and later, although their sessions are not seen
};

int serve(const ServeOptions& options);

}  // namespace sessiond::serve
