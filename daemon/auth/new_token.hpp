// A request for a new token: the body of POST /v1/admin/tokens, or the options of `sessiond token create`. Parsing and
// checking report every fault at once, each with its JSON pointer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/auth/token_record.hpp"
#include "store/problem.hpp"

namespace sessiond::auth {

struct NewToken {
  std::string role{};                 // a role's name
  std::vector<std::string> agents{};  // empty: all
  std::string key_prefix{};
  std::string channel{};
  std::string key{};  // of role session: its session
  std::string note{};
  std::vector<std::string> permissions{};    // beside those of the role
  std::optional<std::int64_t> expires_at{};  // ms since the epoch, in the future
};

// Parses {"role","agents"?,"keyPrefix"?,"channel"?,"key"?,"expiresAt"?,"note"?,"permissions"?}; a null counts as
// absent. bad_request when the body is not a JSON object, else validation_failed.
Result<NewToken> parse_new_token(std::string_view body, std::int64_t now);

// Returns the token's properties without an id: the channel trimmed and lower-cased, each agent once, the key in
// canonical form. The session of the key need not exist. validation_failed with every fault.
Result<TokenInfo> check_new_token(const NewToken& asked, std::int64_t now);

}  // namespace sessiond::auth
