#include "daemon/mcp/wire.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "store/base64.hpp"
#include "store/utf8.hpp"

namespace sessiond::mcp {
namespace {

constexpr std::string_view stateless_version = "2026-07-28";
constexpr std::array<std::string_view, 2> handshake_versions{"2025-11-25", "2025-06-18"};  // the first is offered

constexpr std::string_view version_member = "io.modelcontextprotocol/protocolVersion";
constexpr std::string_view capabilities_member = "io.modelcontextprotocol/clientCapabilities";
constexpr std::string_view server_member = "io.modelcontextprotocol/serverInfo";

constexpr std::int64_t discovery_ms = 3'600'000;  // how long a client may keep what server/discover tells
constexpr std::int64_t tools_ms = 300'000;        // the same of tools/list

bool is_handshake_version(std::string_view version) {
  return std::ranges::find(handshake_versions, version) != handshake_versions.end();
}

std::string supported_versions() {
  return json::array_of(std::array<std::string, 3>{std::string(stateless_version), std::string(handshake_versions[0]),
                                                   std::string(handshake_versions[1])});
}

bool is_id(std::string_view value) {
  if (json::kind(value) == json::Kind::string) return true;
  return json::kind(value) == json::Kind::number && value.find_first_of(".eE") == value.npos;
}

std::optional<Method> method_of(std::string_view name, bool is_stateless) {
  if (name == "tools/list") return Method::list_tools;
  if (name == "tools/call") return Method::call_tool;
  if (is_stateless) return name == "server/discover" ? std::optional(Method::discover) : std::nullopt;
  if (name == "initialize") return Method::initialize;
  return name == "ping" ? std::optional(Method::ping) : std::nullopt;
}

// The beginning of what a client sent, in quotes, for messages.
std::string shown(std::string_view text) {
  constexpr std::size_t most = 128;
  return json::quote(text.substr(0, store::utf8_prefix(text, most)));
}

// Decodes =?base64?…?=, in which a header tells what is not plain ASCII. Nothing: it is not base64.
std::optional<std::string> decoded_header(std::string_view value) {
  constexpr std::string_view begin = "=?base64?";
  constexpr std::string_view end = "?=";
  if (!value.starts_with(begin) || !value.ends_with(end) || value.size() < begin.size() + end.size())
    return std::string(value);
  value.remove_prefix(begin.size());
  value.remove_suffix(end.size());
  std::string bytes;
  return store::from_base64(value, bytes) ? std::optional(std::move(bytes)) : std::nullopt;
}

// A request whose envelope was read.
class Reader {
 public:
  Reader(std::string_view id, std::string method, std::string_view params)
      : id_(id), method_(std::move(method)), params_(params) {}

  Message read(const Headers& headers) const {
    if (method_ == "initialize") return call(false);
    if (headers.version.empty()) return missing("MCP-Protocol-Version");
    const std::string_view meta = json::find(params_, "_meta").value_or("{}");
    const auto version = json::string_at(meta, version_member);
    if (version && *version != headers.version)
      return mismatch("MCP-Protocol-Version", headers.version, "_meta has " + shown(*version));
    if (is_handshake_version(headers.version)) return call(false);
    if (headers.version != stateless_version) return unsupported(headers.version);
    if (!version) return invalid_params("_meta lacks " + std::string(version_member));
    if (headers.method.empty()) return missing("Mcp-Method");
    if (headers.method != method_) return mismatch("Mcp-Method", headers.method, "method is " + shown(method_));
    if (method_ == "tools/call") {
      if (headers.name.empty()) return missing("Mcp-Name");
      const auto name = json::string_at(params_, "name");
      if (!name || decoded_header(headers.name) != name)
        return mismatch("Mcp-Name", headers.name, name ? "params.name is " + shown(*name) : "there is no name");
    }
    if (json::kind(json::find(meta, capabilities_member).value_or("null")) != json::Kind::object)
      return invalid_params("_meta lacks " + std::string(capabilities_member));
    return call(true);
  }

  Refusal refuse(Fault fault, std::string message, int status = 400) const {
    return {.status = status, .fault = fault, .message = std::move(message), .id = id_};
  }
  Refusal invalid_params(std::string message) const { return refuse(Fault::invalid_params, std::move(message)); }

 private:
  Message call(bool is_stateless) const {
    if (const auto method = method_of(method_, is_stateless))
      return Call{.method = *method, .is_stateless = is_stateless, .id = id_, .params = params_};
    return refuse(Fault::unknown_method, "there is no method " + shown(method_), is_stateless ? 404 : 200);
  }
  Refusal missing(std::string_view header) const {
    return refuse(Fault::header_mismatch, fmt::format("the header {} is missing", header));
  }
  Refusal mismatch(std::string_view header, std::string_view value, std::string_view body) const {
    return refuse(Fault::header_mismatch, fmt::format("the header {} is {}, but {}", header, shown(value), body));
  }
  Refusal unsupported(std::string_view version) const {
    Refusal refusal = refuse(Fault::unsupported_version, "unsupported protocol version");
    json::ObjectWriter data(refusal.data);
    data.raw("supported", supported_versions());
    data.string("requested", version);
    data.close();
    return refusal;
  }

  std::string_view id_;
  std::string method_;
  std::string_view params_;
};

void write_server(json::ObjectWriter& out, std::string_view name) {
  json::ObjectWriter server;
  server.string("name", "sessiond");
  server.string("version", SESSIOND_VERSION);
  out.raw(name, server.text());
}

void write_capabilities(json::ObjectWriter& out) { out.raw("capabilities", R"({"tools":{}})"); }

// Makes the reply to a call, whose result `write` writes.
template <class Write>
std::string reply(const Call& call, Write write) {
  std::string result;
  json::ObjectWriter members(result);
  if (call.is_stateless) members.string("resultType", "complete");
  write(members);
  if (call.is_stateless) {
    json::ObjectWriter meta;
    write_server(meta, server_member);
    members.raw("_meta", meta.text());
  }
  members.close();
  json::ObjectWriter out;
  out.string("jsonrpc", "2.0");
  out.raw("id", call.id);
  out.raw("result", result);
  return out.text();
}

void write_lifetime(json::ObjectWriter& out, std::int64_t ms, std::string_view scope) {
  out.integer("ttlMs", ms);
  out.string("cacheScope", scope);
}

}  // namespace

std::string Refusal::json() const {
  json::ObjectWriter error;
  error.integer("code", static_cast<std::int64_t>(fault));
  error.string("message", message);
  if (!data.empty()) error.raw("data", data);
  json::ObjectWriter out;
  out.string("jsonrpc", "2.0");
  out.raw("id", id.empty() ? "null" : id);
  out.raw("error", error.text());
  return out.text();
}

Message read(std::string_view body, const Headers& headers) {
  if (json::kind(body) != json::Kind::object) return Refusal{.message = "the body must be one object"};
  const json::Index members(body);
  const std::string_view id = members.find("id").value_or("");
  const Reader unnamed(is_id(id.empty() ? "null" : id) ? id : "", "", "{}");
  const auto invalid = [&unnamed](std::string message) {
    return unnamed.refuse(Fault::invalid_request, std::move(message));
  };
  if (members.string_at("jsonrpc") != "2.0") return invalid("jsonrpc must be \"2.0\"");
  auto method = members.string_at("method");
  if (!method) return invalid("method must be a string: only requests and notifications are taken");
  if (id.empty()) return Notification{};
  if (!is_id(id)) return invalid("id must be a string or an integer");
  const std::string_view params = members.find("params").value_or("{}");
  if (json::kind(params) != json::Kind::object) return unnamed.invalid_params("params must be an object");
  return Reader(id, *std::move(method), params).read(headers);
}

std::variant<ToolCall, Refusal> tool_call(const Call& call) {
  const auto refuse = [&call](std::string message) {
    return Refusal{.status = 200, .fault = Fault::invalid_params, .message = std::move(message), .id = call.id};
  };
  auto name = json::string_at(call.params, "name");
  if (!name) return refuse("name must be a string");
  const std::string_view arguments = json::find(call.params, "arguments").value_or("{}");
  if (json::kind(arguments) != json::Kind::object) return refuse("arguments must be an object");
  return ToolCall{.name = *std::move(name), .arguments = arguments};
}

Refusal unknown_tool(const Call& call, std::string_view name) {
  return {.status = 200, .fault = Fault::invalid_params, .message = "there is no tool " + shown(name), .id = call.id};
}

std::string discover_reply(const Call& call, std::string_view instructions) {
  return reply(call, [&](json::ObjectWriter& out) {
    out.raw("supportedVersions", supported_versions());
    write_capabilities(out);
    write_server(out, "serverInfo");
    out.string("instructions", instructions);
    write_lifetime(out, discovery_ms, "public");
  });
}

std::string initialize_reply(const Call& call, std::string_view instructions) {
  const std::string asked = json::string_at(call.params, "protocolVersion").value_or("");
  return reply(call, [&](json::ObjectWriter& out) {
    out.string("protocolVersion", is_handshake_version(asked) ? asked : handshake_versions[0]);
    write_capabilities(out);
    write_server(out, "serverInfo");
    out.string("instructions", instructions);
  });
}

std::string ping_reply(const Call& call) {
  return reply(call, [](json::ObjectWriter&) {});
}

std::string tools_reply(const Call& call, std::string_view tools) {
  return reply(call, [&](json::ObjectWriter& out) {
    out.raw("tools", tools);
    if (call.is_stateless) write_lifetime(out, tools_ms, "private");
  });
}

std::string tool_reply(const Call& call, std::string_view structured, std::string_view text, bool is_error) {
  return reply(call, [&](json::ObjectWriter& out) {
    json::ObjectWriter part;
    part.string("type", "text");
    part.string("text", text);
    out.raw("content", "[" + part.text() + "]");
    out.raw("structuredContent", structured);
    out.boolean("isError", is_error);
  });
}

}  // namespace sessiond::mcp
