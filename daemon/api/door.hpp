// Who comes in, and how often (API §7): a stream's ticket, a bearer token, the unix socket's own uid, a client
// certificate, a login cookie, in this order. Wrong secrets are counted by address and answered 429 when they come too
// often (limits.failedLoginsPerMinute); who has a right one comes in all the same. A token's requests are counted
// against limits.requestsPerSecond.
#pragma once

#include <functional>

#include "config/config.hpp"
#include "daemon/auth/login_cookie.hpp"
#include "daemon/auth/rate.hpp"
#include "daemon/auth/tickets.hpp"
#include "daemon/auth/tokens.hpp"
#include "daemon/http/message.hpp"

namespace sessiond {

class Door {
 public:
  static constexpr std::string_view cookie_name = "sessiond";

  // `config` is looked at on every request: it may be read anew meanwhile.
  // `age_now`: the clock of ages.
  Door(const Config& config, Tokens& tokens, Tickets& tickets, LoginCookies& cookies,
       std::function<std::int64_t()> age_now)
      : config_(config), tokens_(tokens), tickets_(tickets), cookies_(cookies), age_now_(std::move(age_now)) {}

  Result<Principal> authenticate(const Request& request, Permission wanted);

  // The cookie for whoever sends this token.
  Result<std::string> log_in(const Request& request, std::string_view token);
  // On disk when it returns; blocks.
  Result<void> log_out(const Request& request);
  // Of the cookie that the request came with; "" when it came by other means.
  std::string csrf_of(const Request& request) const;

  // RateLimit-Limit, -Remaining and -Reset, where there is a limit.
  void tell_rate(const Request& request, Response& response) const;

 private:
  Result<Principal> identify(const Request& request, Permission wanted);
  Result<Principal> by_cookie(const Request& request, std::string_view cookie);
  Rates::Limit request_limit() const;
  Result<Principal> failed(const Request& request, Problem why);

  const Config& config_;
  Tokens& tokens_;
  Tickets& tickets_;
  LoginCookies& cookies_;
  std::function<std::int64_t()> age_now_;
  Rates requests_;  // by token
  Rates failures_;  // by address
};

// A page of another origin may have sent it: an Origin that is neither this server's own nor allowed.
bool from_elsewhere(const Request& request, const Config& config);

}  // namespace sessiond
