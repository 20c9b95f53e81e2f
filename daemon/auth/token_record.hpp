// What is known of a token, and the text of <stateDir>/tokens.json (FORMATS, table of files):
// {"tokens":[{"id","hash","role",…}]}, one token a line, times in ms since the epoch, `hash` the SHA-256 of the token
// in hex. Reading is strict: a member that we do not know could be a limit that we would not keep, so it is damage like
// any other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/auth/principal.hpp"
#include "daemon/auth/secret.hpp"
#include "store/problem.hpp"

namespace sessiond {

struct TokenInfo {
  std::string id{};
  Role role = Role::viewer;
  std::vector<std::string> agents{};  // empty: all
  std::string key_prefix{};           // empty: all
  std::string channel{};              // empty: all
  std::string note{};
  std::int64_t created_at = 0;
  std::optional<std::int64_t> expires_at{};
  std::optional<std::int64_t> last_used_at{};

  bool expired(std::int64_t now) const { return expires_at && now >= *expires_at; }
};
// As the API shows it: never the token, nor its hash. What is not set is left out, but for `agents`.
std::string to_json(const TokenInfo& info);
Principal principal_of(const TokenInfo& info);

struct TokenRecord {
  TokenInfo info;
  TokenHash hash{};
};
std::string write_tokens(const std::vector<TokenRecord>& records);
// A `degraded` problem naming the place (JSON pointer) of the first fault.
Result<std::vector<TokenRecord>> parse_tokens(std::string_view text);

}  // namespace sessiond
