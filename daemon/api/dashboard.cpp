// The dashboard: the page at / and the files that it loads, compiled in and compressed beforehand.
#include <algorithm>

#include "daemon/api/assets.hpp"
#include "daemon/api/handler.hpp"

namespace sessiond::api {
namespace {

constexpr std::string_view built_without =
    "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>sessiond</title><h1>sessiond</h1>"
    "<p>This sessiond was built without its dashboard (cmake -DSESSIOND_WEB=OFF). The HTTP API is served as always: "
    "<a href=\"/openapi.json\">/openapi.json</a>.</p>";

// Only what the daemon itself serves runs or is loaded; what is made into HTML passes one sanitiser (Trusted Types).
constexpr std::string_view content_policy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types dompurify sessiond";

// Whether Accept-Encoding names `coding` and does not refuse it with q=0.
bool accepts(std::string_view header, std::string_view coding) {
  while (!header.empty()) {
    const std::size_t comma = std::min(header.find(','), header.size());
    std::string_view one = header.substr(0, comma);
    header.remove_prefix(std::min(comma + 1, header.size()));
    one.remove_prefix(std::min(one.find_first_not_of(" \t"), one.size()));
    if (!one.starts_with(coding)) continue;
    one.remove_prefix(coding.size());
    const bool refused =
        one.contains("q=0") && one.find_first_of("123456789", one.find("q=0")) == std::string_view::npos;
    if ((one.empty() || one.starts_with(';') || one.starts_with(' ')) && !refused) return true;
  }
  return false;
}

void choose_form(const assets::WebFile& file, const http::Request& request, http::Response& response) {
  response.content_type = file.type;
  response.cacheable = true;
  response.headers.emplace_back("ETag", file.etag);
  response.headers.emplace_back("Vary", "Accept-Encoding");
  if (request.header("if-none-match").contains(file.etag)) {
    response.status = 304;
    return;
  }
  const std::string_view encodings = request.header("accept-encoding");
  if (accepts(encodings, "br")) {
    response.headers.emplace_back("Content-Encoding", "br");
    response.fixed = file.brotli;
  } else if (accepts(encodings, "gzip")) {
    response.headers.emplace_back("Content-Encoding", "gzip");
    response.fixed = file.gzip;
  } else {
    response.fixed = file.identity;
  }
}

HandlerResult dashboard(Api&, http::Request& request) {
  http::Response response;
  response.content_type = "text/html; charset=utf-8";
  if (const auto files = assets::web_files(); !files.empty()) {
    choose_form(files.front(), request, response);
    response.headers.emplace_back("Cache-Control", "no-cache");
  } else {
    response.fixed = built_without;
  }
  response.headers.emplace_back("Content-Security-Policy", content_policy);
  response.headers.emplace_back("X-Frame-Options", "DENY");
  response.headers.emplace_back("Referrer-Policy", "no-referrer");
  response.headers.emplace_back("Cross-Origin-Opener-Policy", "same-origin");
  co_return response;
}

HandlerResult asset(Api&, http::Request& request) {
  const auto files = assets::web_files();
  const auto file = std::ranges::find(files, request.params[0], &assets::WebFile::name);
  if (file == files.end() || file->name.empty())
    co_return fail(Code::not_found, "the dashboard of this version has no such file: load / again");
  http::Response response;
  choose_form(*file, request, response);
  response.headers.emplace_back("Cache-Control", "public, max-age=31536000, immutable");  // the name tells the content
  co_return response;
}

}  // namespace

void add_dashboard_routes(http::Router& router, Api& api) {
  const auto on = adding(router, api);
  on("GET", "/", auth::Permission::open, dashboard, http::any_query);
  on("GET", "/assets/{name}", auth::Permission::open, asset);
}

}  // namespace sessiond::api
