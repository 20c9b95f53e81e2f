// The cookie of a browser that has logged in with a token: `sdc_`, then in base64url an HMAC-SHA-256, 16 random bytes,
// the token's id and the time it was made. The token itself is not in it. The HMAC's key is
// <stateDir>/journal/cursor.key, so a login survives a restart. A cookie is valid while its token is, and for
// LoginCookies::life_ms at most.
//
// A page that writes with the cookie also sends the CSRF token, which only a page of the daemon's own origin can read.
//
// A logout ends one browser's login. It is kept in <stateDir>/journal/logouts until the cookie would have expired. Each
// token has room for most_logouts of them. When a token's room is full, its older half is replaced by one time: all
// logins of that token that were made until then have ended. So no logout is forgotten, and other tokens are not
// affected. A damaged file ends all logins that were made before it was read.
//
// Times come from the age clock (store/journal/age_clock.hpp), so setting the wall clock neither ends a login nor
// revives one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "store/problem.hpp"

namespace sessiond::auth {

class LoginCookies {
 public:
  static constexpr std::int64_t life_ms = 12LL * 3'600'000;
  static constexpr std::size_t most_logouts = 256;  // of one token at a time

  LoginCookies(std::filesystem::path path, std::string secret) : path_(std::move(path)), secret_(std::move(secret)) {}

  // Reads the logouts. If that fails, all logins that were made until `now` have ended.
  Result<void> load(std::int64_t now);

  std::string make(std::string_view token_id, std::int64_t now) const;
  // Returns the id of the token that the cookie was made from; nothing when it is forged, has expired or was logged
  // out.
  std::optional<std::string> token_of(std::string_view cookie, std::int64_t now) const;
  std::string csrf_of(std::string_view cookie) const;
  // Blocks until the logout is on disk. If that fails, the login remains. Any thread.
  Result<void> log_out(std::string_view cookie, std::int64_t now);

 private:
  struct Claims {
    std::string nonce{};
    std::string token{};
    std::int64_t made = 0;
  };
  struct Logouts {
    std::int64_t before = 0;                       // logins made until this time have ended
    std::map<std::string, std::int64_t> nonces{};  // logins that have ended, and when they were made
  };
  using ByToken = std::map<std::string, Logouts, std::less<>>;

  std::optional<Claims> claims_of(std::string_view cookie, std::int64_t now) const;
  static void forget_ended(ByToken& logouts, std::int64_t now);
  static std::string text_of(const ByToken& logouts, std::int64_t all_before);
  Result<void> read(std::string_view text);

  const std::filesystem::path path_;
  const std::string secret_;
  std::mutex file_mutex_;  // taken before mutex_, held during disk I/O
  mutable std::mutex mutex_;
  ByToken logouts_;
  std::int64_t all_before_ = 0;
};

// Returns the value of one cookie in a Cookie header (RFC 6265 §4.2).
std::optional<std::string_view> cookie_of(std::string_view header, std::string_view name);

}  // namespace sessiond::auth
