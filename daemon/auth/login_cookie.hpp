// The cookie of a browser that has logged in with a token (API §7): `sdc_`, then in base64url an HMAC-SHA-256, 16
// random bytes, the token's id and the time it was made. The HMAC is by <stateDir>/journal/cursor.key, so a login
// outlives a restart; the token itself is not in it. It is good while its token is, and for LoginCookies::life_ms at
// most.
//
// A page that writes with it sends the CSRF token too, which only a page of ours can have read.
//
// Logouts are kept in <stateDir>/journal/logouts until the cookie would have ended. Each token has places for
// most_logouts of its own: a logout ends one browser's login and no other. When they are full, the logins that were
// made before the middle one of them end too: so a token's logouts need no more room, none is forgotten, and other
// tokens' are not touched. A file that is damaged ends all logins that were made before it was read.
//
// Times are of the clock of ages (store/journal/age_clock.hpp): no step of the wall clock ends a login or brings one
// back.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "store/problem.hpp"

namespace sessiond {

class LoginCookies {
 public:
  static constexpr std::int64_t life_ms = 12LL * 3'600'000;
  static constexpr std::size_t most_logouts = 256;  // of one token at a time

  LoginCookies(std::filesystem::path path, std::string secret) : path_(std::move(path)), secret_(std::move(secret)) {}

  // Reads the logouts that are kept. On a problem all logins that were made until now have ended.
  Result<void> load(std::int64_t now);

  std::string make(std::string_view token_id, std::int64_t now) const;
  // The id of the token that the cookie was made from; nothing when it is not ours, has ended, or was logged out.
  std::optional<std::string> token_of(std::string_view cookie, std::int64_t now) const;
  std::string csrf_of(std::string_view cookie) const;
  // On disk when it returns; blocks. When it cannot be kept the login stands. Any thread.
  Result<void> log_out(std::string_view cookie, std::int64_t now);

 private:
  struct Claims {
    std::string nonce{};
    std::string token{};
    std::int64_t made = 0;
  };
  struct Logouts {
    std::int64_t before = 0;                       // logins that were made until then have ended
    std::map<std::string, std::int64_t> nonces{};  // and those with these, made then
  };
  using ByToken = std::map<std::string, Logouts, std::less<>>;

  std::optional<Claims> claims_of(std::string_view cookie, std::int64_t now) const;
  static void forget_ended(ByToken& logouts, std::int64_t now);
  static std::string text_of(const ByToken& logouts, std::int64_t all_before);
  Result<void> read(std::string_view text);

  const std::filesystem::path path_;
  const std::string secret_;
  std::mutex file_mutex_;  // taken before mutex_, held while the disk works
  mutable std::mutex mutex_;
  ByToken logouts_;
  std::int64_t all_before_ = 0;
};

// The value of one cookie in a Cookie header (RFC 6265 §4.2).
std::optional<std::string_view> cookie_of(std::string_view header, std::string_view name);

}  // namespace sessiond
