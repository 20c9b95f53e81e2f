// The cookie of a browser that has logged in with a token (API §7): `sdc_`, then in base64url 16 random bytes, an
// HMAC-SHA-256, the token's id and the time it ends. The HMAC is by <stateDir>/journal/cursor.key, so a login outlives
// a restart; the token itself is not in it. It is good while its token is, and for LoginCookies::life_ms at most.
//
// A page that writes with it sends the CSRF token too, which only a page of ours can have read.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace sessiond {

class LoginCookies {
 public:
  static constexpr std::int64_t life_ms = 12LL * 3'600'000;

  explicit LoginCookies(std::string secret) : secret_(std::move(secret)) {}

  std::string make(std::string_view token_id, std::int64_t now) const;
  // The id of the token that the cookie was made from; nothing when it is not ours, has ended, or was logged out.
  std::optional<std::string> token_of(std::string_view cookie, std::int64_t now) const;
  std::string csrf_of(std::string_view cookie) const;
  // Not for longer than this process lives: whoever logs out also loses the cookie itself.
  void log_out(std::string_view cookie, std::int64_t now);

 private:
  std::string secret_;
  mutable std::mutex mutex_;
  std::map<std::string, std::int64_t, std::less<>> gone_;  // logged out, until when they would have lived
};

// The value of one cookie in a Cookie header (RFC 6265 §4.2).
std::optional<std::string_view> cookie_of(std::string_view header, std::string_view name);

}  // namespace sessiond
