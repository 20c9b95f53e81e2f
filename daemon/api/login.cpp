// Browsers log in with a token and get a cookie that scripts cannot read. A write with the cookie also needs the CSRF
// token, which GET /v1/whoami returns.
#include <fmt/format.h>

#include "daemon/api/authenticator.hpp"
#include "daemon/api/handler.hpp"

namespace sessiond::api {
namespace {

void set_cookie(const http::Request& request, http::Response& response, std::string_view value,
                std::int64_t max_age_s) {
  response.headers.emplace_back(
      "Set-Cookie", fmt::format("{}={}; Path=/; Max-Age={}; HttpOnly; SameSite=Strict{}", Authenticator::cookie_name,
                                value, max_age_s, request.secure ? "; Secure" : ""));
}

HandlerResult log_in(Api& api, http::Request& request) {
  CO_TRY(auto fields, co_await body_fields(api, request));
  const auto token = fields.string("token", 256);
  if (!token) fields.fault("token", "is missing");
  CO_TRY(fields.done());
  CO_TRY(const auto cookie, api.authenticator.log_in(request, *token));
  http::Response response = no_content();
  set_cookie(request, response, cookie, auth::LoginCookies::life_ms / 1000);
  co_return response;
}

HandlerResult log_out(Api& api, http::Request& request) {
  CO_TRY(co_await on_disk(api, [&] { return api.authenticator.log_out(request); }));
  http::Response response = no_content();
  set_cookie(request, response, "", 0);
  co_return response;
}

}  // namespace

void add_login_routes(http::Router& router, Api& api) {
  const auto on = adding(router, api);
  on("POST", "/v1/login", auth::Permission::open, credentials(log_in));
  on("POST", "/v1/logout", auth::Permission::self, log_out);
}

}  // namespace sessiond::api
