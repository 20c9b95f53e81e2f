// Makes the first admin token when there is no token, and writes it where the command line and `curl` find it:
// $XDG_CONFIG_HOME/sessiond/admin.token (default ~/.config/sessiond/admin.token), mode 0600, never below the state
// directory. Blocks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "daemon/auth/tokens.hpp"
#include "store/problem.hpp"

namespace sessiond::auth {

struct FirstToken {
  std::string id;
  std::string token;  // print it once
  std::filesystem::path path;
  bool replaced = false;                 // the file held the token of another state directory; tell the user
  std::optional<Problem> not_written{};  // why the file could not be written (no home, read-only); the token works
};

// Returns nothing when there is a token already. `path` is a problem when there is no folder for it. Writes the file
// before tokens.json, so that a crash in between never leaves a token in tokens.json that nobody knows.
Result<std::optional<FirstToken>> make_first_token(Tokens& tokens, const Result<std::filesystem::path>& path,
                                                   const std::filesystem::path& state_dir, std::int64_t now);

}  // namespace sessiond::auth
