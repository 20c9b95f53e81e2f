// The properties of a token, and the text of <stateDir>/tokens.json: {"tokens":[{"id","hash","role",…}]}, one token a
// line, times in ms since the epoch, `hash` the SHA-256 of the token in hex. Reading is strict: an unknown member could
// be a limit that this version would not enforce, so it counts as damage.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/auth/principal.hpp"
#include "daemon/auth/secret.hpp"
#include "store/problem.hpp"

namespace sessiond::auth {

struct TokenInfo {
  std::string id{};
  Role role = Role::viewer;
  std::vector<std::string> agents{};  // empty: all
  std::string key_prefix{};           // empty: all
  std::string channel{};              // empty: all
  std::string key{};                  // of role session: its session; else empty
  std::string note{};
  std::vector<std::string> permissions{};  // beside those of its role, sorted: approve, hook
  std::int64_t created_at = 0;
  std::optional<std::int64_t> expires_at{};
  std::optional<std::int64_t> last_used_at{};

  bool expired(std::int64_t now) const { return expires_at && now >= *expires_at; }
};
// Returns what the API shows: neither the token nor its hash. Members that are not set are left out, except `agents`.
std::string to_json(const TokenInfo& info);
Principal principal_of(const TokenInfo& info);
// Says whether a token can be made with this permission.
bool can_be_given(std::string_view permission);

struct TokenRecord {
  TokenInfo info;
  TokenHash hash{};
};
std::string write_tokens(const std::vector<TokenRecord>& records);
// Fails with a `degraded` problem that names the first fault by its JSON pointer.
Result<std::vector<TokenRecord>> parse_tokens(std::string_view text);

}  // namespace sessiond::auth
