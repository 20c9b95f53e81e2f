// The first admin token: made when there is none, and left where the command line and `curl` find it,
// $XDG_CONFIG_HOME/sessiond/admin.token (default ~/.config/sessiond/admin.token), 0600, never below the state directory
// (API §7). Blocks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "daemon/auth/tokens.hpp"
#include "store/problem.hpp"

namespace sessiond {

// From the environment, as the XDG base directory specification has it: a relative $XDG_CONFIG_HOME is ignored, without
// $HOME the password database is asked.
Result<std::filesystem::path> admin_token_path();

struct FirstToken {
  std::string id;
  std::string token;  // print it once
  std::filesystem::path path;
  bool replaced = false;  // a token of another state directory stood there; say so
  std::optional<Problem>
      not_written{};  // the file could not be made (no home, read-only): the token is good all the same
};

// Nothing when there is a token already. The file is written before tokens.json: whenever a token is kept, it is known
// to somebody.
Result<std::optional<FirstToken>> make_first_token(Tokens& tokens, const Result<std::filesystem::path>& path,
                                                   const std::filesystem::path& state_dir, std::int64_t now);

}  // namespace sessiond
