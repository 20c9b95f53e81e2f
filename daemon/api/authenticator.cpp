#include "daemon/api/authenticator.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "daemon/api/handler.hpp"
#include "daemon/http/connection_quota.hpp"

namespace sessiond::api {
namespace {

Problem too_often(std::string detail, std::int64_t retry_after_s) {
  return {.code = Code::too_many_requests,
          .detail = std::move(detail),
          .retry_after_s = static_cast<int>(std::max<std::int64_t>(retry_after_s, 1))};
}

// Returns whether a request has no token where nothing else counts.
bool lacks_header(const http::Request& request, auth::Permission wanted) {
  return wanted == auth::Permission::mcp && request.header("authorization").empty();
}

std::optional<std::string_view> login_cookie(const http::Request& request) {
  return auth::cookie_of(request.header("cookie"), Authenticator::cookie_name);
}

}  // namespace

bool is_cross_origin(const http::Request& request, const config::Config& config) {
  const std::string_view origin = request.header("origin");
  if (origin.empty()) return false;  // not a browser, or a page of ours that only reads
  const std::size_t scheme = origin.find("://");
  // Compares without the scheme, which a TLS proxy in front of the daemon changes.
  if (scheme != std::string_view::npos && origin.substr(scheme + 3) == store::lower(request.header("host")))
    return false;
  return std::ranges::find(config.cors.allowed_origins, origin) == config.cors.allowed_origins.end();
}

// All ways out return one object: a sender is not moved.
Result<auth::Principal> Authenticator::authenticate(const http::Request& request, auth::Permission wanted) {
  auto who = identify(request, wanted);
  if (!who) {
    const bool is_counted = who.error().code == Code::unauthorized && !lacks_header(request, wanted);
    if (is_counted) who = failed(request, std::move(who.error()));
    return who;
  }
  if (who->id == "local" || request.counted) return who;
  const auth::Rates::Left left = requests_.take(who->id, request_limit(), store::steady_ms());
  if (!left.granted)
    who = std::unexpected(
        too_often(fmt::format("token {} may make {} requests a second", who->id, config_.limits.requests_per_second),
                  left.next_in_s));
  return who;
}

Result<auth::Principal> Authenticator::identify(const http::Request& request, auth::Permission wanted) {
  if (wanted == auth::Permission::mcp && is_cross_origin(request, config_))
    return fail(Code::forbidden, "a page of another origin may not ask here");
  if (lacks_header(request, wanted))
    return fail(Code::unauthorized, "send a token as Authorization: Bearer; nothing else counts here");
  // The ticket comes first: a browser adds the Authorization that a proxy in between asked for by itself.
  if (const std::string* ticket = request.query_value("ticket");
      ticket != nullptr && wanted == auth::Permission::stream) {
    TRY(auto found, tickets_.find(*ticket, store::unix_ms()));
    return std::move(found.principal);
  }
  const std::string_view authorization = request.header("authorization");
  if (!authorization.empty()) return tokens_.authenticate(authorization, store::unix_ms(), request.proof);
  if (request.local_admin) return auth::Principal{.id = "local", .role = auth::Role::admin};
  if (!request.certificate.empty()) {  // browsers send it by themselves, as they do cookies
    if (!is_safe(request.method) && is_cross_origin(request, config_))
      return fail(Code::forbidden, "a page of another origin may not write");
    return tokens_.principal(request.certificate, store::unix_ms());
  }
  if (const auto cookie = login_cookie(request)) return by_cookie(request, *cookie);
  return tokens_.authenticate(authorization, store::unix_ms());
}

Result<auth::Principal> Authenticator::by_cookie(const http::Request& request, std::string_view cookie) {
  const auto token = cookies_.token_of(cookie, age_now_());
  if (!token) return fail(Code::unauthorized, "the login has ended: log in again");
  if (!is_safe(request.method)) {
    if (is_cross_origin(request, config_)) return fail(Code::forbidden, "a page of another origin may not write");
    if (!auth::same_token(request.header("x-csrf-token"), cookies_.csrf_of(cookie)))
      return fail(Code::forbidden, "a write with a login cookie needs X-CSRF-Token, which GET /v1/whoami returns");
  }
  return tokens_.principal(*token, store::unix_ms());
}

// Counts a wrong secret. A request without any secret is not counted: it was no attempt to guess one.
Result<auth::Principal> Authenticator::failed(const http::Request& request, Problem why) {
  const double a_minute = static_cast<double>(config_.limits.failed_logins_per_minute);
  const bool guessed = !request.header("authorization").empty() || login_cookie(request) ||
                       request.query_value("ticket") != nullptr || request.path == "/v1/login";
  if (!guessed || a_minute == 0 || request.peer.starts_with("unix:")) return std::unexpected(std::move(why));
  const auth::Rates::Left left = failures_.take(http::network_of(request.peer),
                                                {.per_second = a_minute / 60, .at_once = a_minute}, store::steady_ms());
  if (left.granted) return std::unexpected(std::move(why));
  return std::unexpected(too_often("too many wrong tokens from this address", left.next_in_s));
}

Result<std::string> Authenticator::log_in(const http::Request& request, std::string_view token) {
  if (is_cross_origin(request, config_)) return fail(Code::forbidden, "a page of another origin may not log in here");
  auto who = tokens_.authenticate("Bearer " + std::string(token), store::unix_ms());
  if (!who) who = failed(request, std::move(who.error()));
  if (!who) return std::unexpected(std::move(who.error()));
  return cookies_.make(who->id, age_now_());
}

Result<void> Authenticator::log_out(const http::Request& request) {
  const auto cookie = login_cookie(request);
  return cookie ? cookies_.log_out(*cookie, age_now_()) : Result<void>{};
}

std::string Authenticator::csrf_of(const http::Request& request) const {
  const auto cookie = login_cookie(request);
  if (!cookie || !request.header("authorization").empty() || request.local_admin || !request.certificate.empty())
    return {};
  return cookies_.csrf_of(*cookie);
}

auth::Rates::Limit Authenticator::request_limit() const {
  const auto a_second = static_cast<double>(config_.limits.requests_per_second);
  return {.per_second = a_second, .at_once = a_second};
}

void Authenticator::add_rate_headers(const http::Request& request, http::Response& response) const {
  const std::string& who = request.principal.id;
  if (config_.limits.requests_per_second == 0 || who.empty() || who == "local") return;
  const auth::Rates::Left left = requests_.look(who, request_limit(), store::steady_ms());
  response.headers.emplace_back("RateLimit-Limit", std::to_string(config_.limits.requests_per_second));
  response.headers.emplace_back("RateLimit-Remaining", std::to_string(left.remaining));
  response.headers.emplace_back("RateLimit-Reset", std::to_string(left.full_in_s));
}

}  // namespace sessiond::api
