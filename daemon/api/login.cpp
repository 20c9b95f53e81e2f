// Browsers log in with a token and get a cookie that scripts cannot read (API §7). What writes with it also sends the
// CSRF token. And the audit log, for operators.
#include <fmt/format.h>

#include "daemon/api/audit.hpp"
#include "daemon/api/door.hpp"
#include "daemon/api/fields.hpp"
#include "daemon/api/handler.hpp"

namespace sessiond {
namespace {

using Served = asio::awaitable<Result<Response>>;

constexpr std::int64_t most_lines = 1000;

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
  Response response = json_response("", 204);
  response.content_type.clear();
  set_cookie(request, response, *cookie, LoginCookies::life_ms / 1000);
  co_return response;
}

Served log_out(Api& api, Request& request) {
  api.door.log_out(request);
  Response response = json_response("", 204);
  response.content_type.clear();
  set_cookie(request, response, "", 0);
  co_return response;
}

Served audit(Api& api, Request& request) {
  if (!request.principal.sees_everything())
    co_return fail(Code::forbidden, "only a token that sees everything may read the audit log");
  if (auto known = known_query(request, {"limit"}); !known) co_return std::unexpected(std::move(known.error()));
  const auto limit = query_int(request, "limit", 1, most_lines);
  if (!limit) co_return std::unexpected(limit.error());
  auto lines = co_await api.audit.newest(static_cast<std::size_t>(limit->value_or(100)));
  if (!lines) co_return std::unexpected(std::move(lines.error()));
  co_return json_response(fmt::format(R"({{"data":[{}]}})", fmt::join(*lines, ",")));
}

}  // namespace

void add_login_routes(Router& router, Api& api) {
  const auto on = [&](const char* method, const char* pattern, Permission permission, Served (*call)(Api&, Request&)) {
    router.add(method, pattern, permission, answering([&api, call](Request& request) { return call(api, request); }));
  };
  on("POST", "/v1/login", Permission::open, log_in);
  on("POST", "/v1/logout", Permission::self, log_out);
  on("GET", "/v1/admin/audit", Permission::maintenance, audit);
}

}  // namespace sessiond
