// Authenticates requests and limits their rate. A request is authenticated by the first of these that it has: a stream
// ticket, a bearer token, the uid of a unix socket's peer, a client certificate, a login cookie. Wrong secrets are
// counted for each address and answered 429 when there are too many (limits.failedLoginsPerMinute); a right secret is
// accepted from such an address all the same. The requests of a token are counted against limits.requestsPerSecond.
// Where Permission::mcp is asked for, only a bearer token counts, and a page of another origin is refused with one,
// too.
#pragma once

#include <functional>

#include "config/config.hpp"
#include "daemon/auth/login_cookie.hpp"
#include "daemon/auth/rate.hpp"
#include "daemon/auth/tickets.hpp"
#include "daemon/auth/tokens.hpp"
#include "daemon/http/message.hpp"

namespace sessiond::api {

// Used on the loop's thread only, but for log_out().
class Authenticator {
 public:
  static constexpr std::string_view cookie_name = "sessiond";

  // Reads `config` on every request, since a reload changes it. `age_now` returns the ledger's age clock (ms), which
  // never goes back.
  Authenticator(const config::Config& config, auth::Tokens& tokens, auth::Tickets& tickets, auth::LoginCookies& cookies,
                std::function<std::int64_t()> age_now)
      : config_(config), tokens_(tokens), tickets_(tickets), cookies_(cookies), age_now_(std::move(age_now)) {}

  Result<auth::Principal> authenticate(const http::Request& request, auth::Permission wanted);

  // Returns a new login cookie for a token. Errors: unauthorized, too_many_requests, forbidden (a page of another
  // origin).
  Result<std::string> log_in(const http::Request& request, std::string_view token);
  // Makes the request's cookie invalid, durably. Blocks: runs on a disk thread.
  Result<void> log_out(const http::Request& request);
  // Returns the CSRF token of the request's login cookie; "" when the request was authenticated by other means.
  std::string csrf_of(const http::Request& request) const;

  // Adds RateLimit-Limit, -Remaining and -Reset when limits.requestsPerSecond is set.
  void add_rate_headers(const http::Request& request, http::Response& response) const;

 private:
  Result<auth::Principal> identify(const http::Request& request, auth::Permission wanted);
  Result<auth::Principal> by_cookie(const http::Request& request, std::string_view cookie);
  auth::Rates::Limit request_limit() const;
  Result<auth::Principal> failed(const http::Request& request, Problem why);

  const config::Config& config_;
  auth::Tokens& tokens_;
  auth::Tickets& tickets_;
  auth::LoginCookies& cookies_;
  std::function<std::int64_t()> age_now_;
  auth::Rates requests_;  // by token id
  auth::Rates failures_;  // by network address
};

// Whether a page of another origin may have sent the request: its Origin is neither this server's nor in
// cors.allowedOrigins.
bool is_cross_origin(const http::Request& request, const config::Config& config);

}  // namespace sessiond::api
