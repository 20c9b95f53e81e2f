// The wish for a token: the body of POST /v1/admin/tokens (API §7) or the options of `sessiond token create`. Reading
// and checking name every fault with its JSON pointer, all at once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/auth/token_record.hpp"
#include "store/problem.hpp"

namespace sessiond {

struct NewToken {
  std::string role{};                 // a role's name
  std::vector<std::string> agents{};  // empty: all
  std::string key_prefix{};
  std::string channel{};
  std::string note{};
  std::optional<std::int64_t> expires_at{};  // ms since the epoch, in the future
};

// {"role","agents"?,"keyPrefix"?,"channel"?,"expiresAt"?,"note"?}; null stands for absent. bad_request when it is no
// JSON object, validation_failed otherwise.
Result<NewToken> parse_new_token(std::string_view body, std::int64_t now);

// Without id; the channel trimmed and lower-cased, each agent once. validation_failed with every fault.
Result<TokenInfo> check_new_token(const NewToken& wish, std::int64_t now);

}  // namespace sessiond
