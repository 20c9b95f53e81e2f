// Browsers log in with a token and get a cookie that scripts cannot read (API §7). What writes with it also sends the
// CSRF token.
#include <fmt/format.h>

#include "daemon/api/door.hpp"
#include "daemon/api/fields.hpp"
#include "daemon/api/handler.hpp"
#include "daemon/runtime/hop.hpp"

namespace sessiond {
namespace {

void set_cookie(const Request& request, Response& response, std::string_view value, std::int64_t max_age_s) {
  response.headers.emplace_back(
      "Set-Cookie", fmt::format("{}={}; Path=/; Max-Age={}; HttpOnly; SameSite=Strict{}", Door::cookie_name, value,
                                max_age_s, request.secure ? "; Secure" : ""));
}

Served log_in(Api& api, Request& request) {
  auto body = json_body(request, api.config.limits.json_depth);
  if (!body) co_return std::unexpected(std::move(body.error()));
  auto fields = Fields::of(*body);
  if (!fields) co_return std::unexpected(std::move(fields.error()));
  const auto token = fields->string("token", 256);
  if (!token) fields->fault("token", "is missing");
  if (auto done = fields->done(); !done) co_return std::unexpected(std::move(done.error()));
  const auto cookie = api.door.log_in(request, *token);
  if (!cookie) co_return std::unexpected(cookie.error());
  Response response = no_content();
  set_cookie(request, response, *cookie, LoginCookies::life_ms / 1000);
  co_return response;
}

Served log_out(Api& api, Request& request) {
  auto done = co_await hop(api.ledger.disk().get_executor(), [&] { return api.door.log_out(request); });
  if (!done) co_return std::unexpected(std::move(done.error()));
  Response response = no_content();
  set_cookie(request, response, "", 0);
  co_return response;
}

}  // namespace

void add_login_routes(Router& router, Api& api) {
  const auto on = adding(router, api);
  on("POST", "/v1/login", Permission::open, log_in);
  on("POST", "/v1/logout", Permission::self, log_out);
}

}  // namespace sessiond
