// sessiond token create|list|rotate|revoke: asks the running daemon; without one, changes tokens.json under the state
// lock. The result goes to stdout, everything else to stderr. run() returns the exit code.
#pragma once

#include <optional>
#include <string>

#include "daemon/auth/new_token.hpp"
#include "daemon/auth/tokens.hpp"
#include "daemon/serve/settings.hpp"

namespace sessiond::cli {

struct Where {  // --config and --state-dir
  std::optional<std::string> config{};
  std::optional<std::string> state_dir{};
};

// The settings there; nothing when the configuration has faults, which were printed.
std::optional<serve::Settings> load_settings(const Where& where);

struct TokenCreate {
  Where where{};
  auth::NewToken wish{};
};
struct TokenList {
  Where where{};
  bool json = false;
};
struct TokenRotate {
  Where where{};
  std::string id{};
  std::int64_t overlap_ms = auth::default_overlap_ms;
};
struct TokenRevoke {
  Where where{};
  std::string id{};
};

int run(const TokenCreate& command);
int run(const TokenList& command);
int run(const TokenRotate& command);
int run(const TokenRevoke& command);

}  // namespace sessiond::cli
