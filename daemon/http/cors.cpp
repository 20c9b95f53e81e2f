#include "daemon/http/cors.hpp"

#include <algorithm>

namespace sessiond::http {

void add_cors(const Request& request, const std::vector<std::string>& allowed_origins, Response& response) {
  if (allowed_origins.empty()) return;
  auto& headers = response.headers;
  headers.emplace_back("Vary", "Origin");
  const std::string_view origin = request.header("origin");
  if (std::ranges::find(allowed_origins, origin) == allowed_origins.end()) return;
  headers.emplace_back("Access-Control-Allow-Origin", origin);
  if (request.method != "OPTIONS" || request.header("access-control-request-method").empty()) {
    headers.emplace_back("Access-Control-Expose-Headers",
                         "ETag, Link, Location, Retry-After, X-Request-Id, Idempotency-Replayed, RateLimit-Limit, "
                         "RateLimit-Remaining, RateLimit-Reset");
    return;
  }
  const auto allow = std::ranges::find(headers, "Allow", [](const auto& header) { return header.first; });
  if (allow == headers.end()) return;
  headers.emplace_back("Access-Control-Allow-Methods", std::string(allow->second));
  headers.emplace_back("Access-Control-Allow-Headers",
                       "Authorization, Content-Type, If-Match, Idempotency-Key, Last-Event-ID, Prefer, Range, "
                       "Cache-Control, X-Request-Id, Sessiond-Client, MCP-Protocol-Version, Mcp-Method, Mcp-Name");
  headers.emplace_back("Access-Control-Max-Age", "600");
}

}  // namespace sessiond::http
