// POST /mcp: the Model Context Protocol, by which an agent reads its own past. daemon/mcp knows what a request says and
// how a reply looks; the tools are requests of the API. Nothing is kept between two requests, so a client may go on
// with any daemon, and with this one after a restart.
#include <fmt/format.h>

#include "daemon/api/handler.hpp"
#include "daemon/api/mcp_tools.hpp"
#include "daemon/mcp/wire.hpp"
#include "policy/secret_scan.hpp"

namespace sessiond::api {
namespace {

constexpr std::size_t most_mcp_bytes = 1 << 20;

// Clients log what they are refused, so a token that stands in the request is not repeated.
http::Response refusal_response(mcp::Refusal refusal) {
  refusal.message = policy::without_secrets(refusal.message);
  refusal.data = policy::without_secrets(refusal.data);
  return json_response(refusal.json(), refusal.status);
}

// Reads the body. Errors: content_too_large, unsupported_media_type.
asio::awaitable<Result<mcp::Message>> read_mcp(Api& api, http::Request& request) {
  if (request.body.size() > most_mcp_bytes)
    co_return fail(Code::content_too_large, fmt::format("a body on this route has at most {} bytes", most_mcp_bytes));
  co_return co_await off_the_loop(api, request, [&request](const Limits& limits) -> Result<mcp::Message> {
    const auto body = body_of(request, limits);
    if (!body && body.error().code == Code::bad_request)
      return mcp::Refusal{.fault = mcp::Fault::not_json, .message = body.error().detail};
    if (!body) return std::unexpected(body.error());
    return mcp::read(*body, {.version = request.header("mcp-protocol-version"),
                             .method = request.header("mcp-method"),
                             .name = request.header("mcp-name")});
  });
}

// Refusals that stay what they are in HTTP: a client cannot mend them by another call.
bool stays_http(int status) { return status == 401 || status == 413 || status == 429 || status == 503; }

http::Response as_http(http::Response refused) {
  // The others are of the observer, which adds them to the outer reply as well.
  std::erase_if(refused.headers,
                [](const auto& header) { return header.first != "Retry-After" && header.first != "WWW-Authenticate"; });
  return refused;
}

HandlerResult call_tool(const http::Router& router, const http::Request& request, const mcp::Call& call) {
  const auto asked = mcp::tool_call(call);
  if (const auto* refusal = std::get_if<mcp::Refusal>(&asked)) co_return refusal_response(*refusal);
  const auto& named = std::get<mcp::ToolCall>(asked);
  const Tool* tool = find_tool(named.name);
  if (tool == nullptr) co_return refusal_response(mcp::unknown_tool(call, named.name));
  const ToolUse use{.router = router, .request = request, .arguments = named.arguments};
  ToolResult result = co_await tool->call(use);
  if (result) co_return json_response(mcp::tool_reply(call, *result, *result, false));
  http::Response& refused = result.error();
  if (stays_http(refused.status)) co_return as_http(std::move(refused));
  const auto member = [&refused](std::string_view name) { return json::string_at(refused.body, name).value_or(""); };
  co_return json_response(mcp::tool_reply(call, refused.body, member("code") + ": " + member("detail"), true));
}

HandlerResult answer_method(const http::Router& router, const http::Request& request, const mcp::Call& call) {
  switch (call.method) {
    case mcp::Method::discover:
      co_return json_response(mcp::discover_reply(call, tool_instructions()));
    case mcp::Method::initialize:
      co_return json_response(mcp::initialize_reply(call, tool_instructions()));
    case mcp::Method::ping:
      co_return json_response(mcp::ping_reply(call));
    case mcp::Method::list_tools:
      co_return json_response(mcp::tools_reply(call, listed_tools(request.principal)));
    case mcp::Method::call_tool:
      break;
  }
  co_return co_await call_tool(router, request, call);
}

HandlerResult answer_mcp(const http::Router& router, Api& api, http::Request& request) {
  CO_TRY(const auto message, co_await read_mcp(api, request));
  if (const auto* refusal = std::get_if<mcp::Refusal>(&message)) co_return refusal_response(*refusal);
  if (const auto* call = std::get_if<mcp::Call>(&message)) co_return co_await answer_method(router, request, *call);
  http::Response accepted = json_response("", 202);
  accepted.content_type = {};
  co_return accepted;
}

}  // namespace

void add_mcp_routes(http::Router& router, Api& api) {
  if (!api.config.mcp.enabled) return;
  // Not with adding(): keys are looked for in what the tools ask of the API.
  router.add("POST", "/mcp", auth::Permission::mcp,
             [&router, &api](http::Request& request) { return answer_mcp(router, api, request); });
}

}  // namespace sessiond::api
