// The Model Context Protocol (modelcontextprotocol.io) as it stands in an HTTP request: JSON-RPC 2.0, one object a
// POST. What is here is pure: a body and three headers come in, and out comes what was asked, or the reply that refuses
// it.
//
// Two ways of speaking are understood, and nothing is kept between requests in either:
//
//   2026-07-28               Every request names its version and what its client can do (`_meta` of its params), and
//                            repeats version, method and tool in headers, so that whatever stands between may route by
//                            them. Headers and body must agree.
//   2025-11-25, 2025-06-18   Clients open with `initialize`, which tells them the version. Afterwards the header
//                            MCP-Protocol-Version names it; the other headers and `_meta` are not asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "store/json/raw_json.hpp"

namespace sessiond::mcp {

enum class Method : std::uint8_t { discover, initialize, ping, list_tools, call_tool };

// A request that is well-formed. Its views point into the body.
struct Call {
  Method method = Method::ping;
  bool is_stateless = false;  // as in 2026
  std::string_view id{};      // raw JSON: a string or an integer
  std::string_view params{};  // raw JSON: an object
};

// A message that wants no reply. Nothing is done with it: there is nothing that it could be about.
struct Notification {};

enum class Fault : std::int16_t {
  not_json = -32700,
  invalid_request = -32600,
  unknown_method = -32601,
  invalid_params = -32602,
  header_mismatch = -32020,
  unsupported_version = -32022,
};

struct Refusal {
  int status = 400;
  Fault fault = Fault::invalid_request;
  std::string message{};
  std::string data{};        // raw JSON; "": none
  std::string_view id{};     // raw JSON; "": not known
  std::string json() const;  // the reply's body
};

// Of the request, trimmed; "" when absent.
struct Headers {
  std::string_view version{};  // MCP-Protocol-Version
  std::string_view method{};   // Mcp-Method
  std::string_view name{};     // Mcp-Name
};

using Message = std::variant<Call, Notification, Refusal>;

// Reads a request. `body` is JSON that json::check has accepted, without white space around it, and outlives the
// result.
Message read(std::string_view body, const Headers& headers);

// The tool that a call names, and its arguments, raw JSON.
struct ToolCall {
  std::string name{};
  std::string_view arguments{};
};
// Refused (invalid_params): there is no name, or the arguments are not an object.
std::variant<ToolCall, Refusal> tool_call(const Call& call);
Refusal unknown_tool(const Call& call, std::string_view name);

// --- replies ---

// They tell a client what there is. `instructions` says to its model how the tools are used.
std::string discover_reply(const Call& call, std::string_view instructions);
std::string initialize_reply(const Call& call, std::string_view instructions);
std::string ping_reply(const Call& call);
std::string tools_reply(const Call& call, std::string_view tools);  // `tools`: a JSON array
// `structured`: a JSON object. `text`: what models read that do not read that.
std::string tool_reply(const Call& call, std::string_view structured, std::string_view text, bool is_error);

}  // namespace sessiond::mcp
