// The tools of POST /mcp. A tool makes requests of the API of its arguments (inner_request.hpp), and its result of
// their answers. web/mcp.json tells clients of them.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <expected>
#include <string>
#include <string_view>

#include "daemon/http/router.hpp"

namespace sessiond::api {

// The result, a JSON object; or the reply in which the API refused it.
using ToolResult = std::expected<std::string, http::Response>;

// The parameters of a call to a tool. They outlive the call.
struct ToolUse {
  const http::Router& router;
  const http::Request& request;  // POST /mcp
  std::string_view arguments{};  // raw JSON: an object
};

struct Tool {
  std::string_view name;
  auth::Permission permission;  // of the requests that it makes
  boost::asio::awaitable<ToolResult> (*call)(const ToolUse&);
};

const Tool* find_tool(std::string_view name);  // null: there is none
// The tools that a token may use, as tools/list tells them: a JSON array.
std::string listed_tools(const auth::Principal& principal);
std::string_view tool_instructions();  // how they are to be used

}  // namespace sessiond::api
