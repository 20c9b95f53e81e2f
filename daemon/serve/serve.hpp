// `sessiond serve`: the daemon's life. Exit codes: 0 stopped as asked, 1 cannot start, 2 bad configuration, 3 the state
// directory is in use.
#pragma once

#include <optional>
#include <string>

namespace sessiond {

struct ServeOptions {
  std::optional<std::string> config;     // --config
  std::optional<std::string> state_dir;  // --state-dir, before what the configuration says
  std::optional<std::string> listen{};   // --listen, before listen.tcp
  bool repair = false;                   // start with a damaged journal: quarantine, new epoch
  bool ignore_sqlite = false;  // serve beside databases of OpenClaw 2026.8 and later, whose sessions are not seen
};

int serve(const ServeOptions& options);

}  // namespace sessiond
