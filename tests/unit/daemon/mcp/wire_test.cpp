#include "daemon/mcp/wire.hpp"

#include <doctest/doctest.h>

#include <array>

using namespace sessiond;
using namespace sessiond::mcp;

namespace {

constexpr std::string_view now = "2026-07-28";
constexpr std::string_view meta =
    R"("_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}})";

std::string request(std::string_view method, std::string_view params, std::string_view id = "1") {
  json::ObjectWriter writer;
  writer.string("jsonrpc", "2.0");
  writer.raw("id", id);
  writer.string("method", method);
  if (!params.empty()) writer.raw("params", params);
  return writer.text();
}
std::string with_meta(std::string_view more = "") {
  return "{" + std::string(meta) + (more.empty() ? "" : ",") + std::string(more) + "}";
}

// "<status> <code>", "notification", or what a call is.
std::string outcome(const std::string& body, const Headers& headers) {
  REQUIRE(json::check(body).has_value());
  const Message message = read(body, headers);
  if (const auto* refusal = std::get_if<Refusal>(&message)) {
    REQUIRE(json::check(refusal->json(), {.unique_names = true}).has_value());
    return std::to_string(refusal->status) + " " + std::to_string(static_cast<int>(refusal->fault));
  }
  if (std::holds_alternative<Notification>(message)) return "notification";
  constexpr std::array<std::string_view, 5> names{"discover", "initialize", "ping", "list", "call"};
  const auto& call = std::get<Call>(message);
  return std::string(names.at(static_cast<std::size_t>(call.method))) + (call.is_stateless ? " stateless" : "");
}

}  // namespace

TEST_CASE("a request of 2026 says the same in its headers and in its body") {
  const std::string list = request("tools/list", with_meta());
  CHECK(outcome(list, {now, "tools/list", ""}) == "list stateless");
  CHECK(outcome(list, {now, "tools/list", "a name where none belongs"}) == "list stateless");
  CHECK(outcome(list, {"", "tools/list", ""}) == "400 -32020");
  CHECK(outcome(list, {"2025-11-25", "tools/list", ""}) == "400 -32020");
  CHECK(outcome(list, {now, "", ""}) == "400 -32020");
  CHECK(outcome(list, {now, "Tools/list", ""}) == "400 -32020");
  const std::string call = request("tools/call", with_meta(R"("name":"größe")"));
  CHECK(outcome(call, {now, "tools/call", "größe"}) == "call stateless");
  CHECK(outcome(call, {now, "tools/call", "=?base64?Z3LDtsOfZQ==?="}) == "call stateless");
  for (const std::string_view other :
       {"", "grosse", "=?base64?Z3LDtsOfZQ?=", "=?base64?Z3JvZQ==?=", "=?base64?", "=?base64?\?="})
    CHECK(outcome(call, {now, "tools/call", other}) == "400 -32020");
  CHECK(outcome(request("tools/call", with_meta()), {now, "tools/call", "x"}) == "400 -32020");
  CHECK(outcome(request("tools/call", with_meta(R"("name":"=?base64??")")), {now, "tools/call", "=?base64??"}) ==
        "call stateless");
}

TEST_CASE("version and capabilities stand in _meta") {
  CHECK(outcome(request("tools/list", ""), {now, "tools/list", ""}) == "400 -32602");
  CHECK(outcome(request("tools/list", R"({"_meta":7})"), {now, "tools/list", ""}) == "400 -32602");
  CHECK(outcome(request("tools/list", R"({"_meta":{"io.modelcontextprotocol/protocolVersion":7}})"),
                {now, "tools/list", ""}) == "400 -32602");
  for (const std::string_view capabilities : {"", R"(,"io.modelcontextprotocol/clientCapabilities":[])"})
    CHECK(outcome(request("tools/list", R"({"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28")" +
                                            std::string(capabilities) + "}}"),
                  {now, "tools/list", ""}) == "400 -32602");
  CHECK(outcome(request("tools/list", ""), {}) == "400 -32020");
}

TEST_CASE("another version is answered with those that are supported") {
  const std::string body =
      request("x", R"({"_meta":{"io.modelcontextprotocol/protocolVersion":"2099-01-01"}})", R"("i")");
  const Message message = read(body, {.version = "2099-01-01"});
  REQUIRE(std::holds_alternative<Refusal>(message));
  CHECK(
      std::get<Refusal>(message).json() ==
      R"({"jsonrpc":"2.0","id":"i","error":{"code":-32022,"message":"unsupported protocol version","data":{"supported":["2026-07-28","2025-11-25","2025-06-18"],"requested":"2099-01-01"}}})");
  CHECK(outcome(request("tools/list", ""), {.version = "2024-11-05"}) == "400 -32022");
}

TEST_CASE("each way of speaking has its methods") {
  const auto stateless = [](std::string_view method) {
    return outcome(request(method, with_meta(R"("name":"x")")), {now, method, "x"});
  };
  CHECK(stateless("server/discover") == "discover stateless");
  CHECK(stateless("initialize") == "initialize");
  CHECK(stateless("ping") == "404 -32601");
  CHECK(stateless("prompts/list") == "404 -32601");
  for (const std::string_view version : {"2025-11-25", "2025-06-18"}) {
    const auto handshake = [version](std::string_view method) {
      return outcome(request(method, ""), {.version = version});
    };
    CHECK(handshake("initialize") == "initialize");
    CHECK(handshake("ping") == "ping");
    CHECK(handshake("tools/list") == "list");
    CHECK(handshake("tools/call") == "call");
    CHECK(handshake("server/discover") == "200 -32601");
  }
  CHECK(outcome(request("initialize", ""), {}) == "initialize");
}

TEST_CASE("what is not a request is refused, and a notification is taken") {
  for (const std::string body :
       {"[]", "7", R"("x")", "null", "{}", R"({"jsonrpc":"2.0","id":1,"result":{}})",
        R"({"jsonrpc":"2.0","id":null,"method":"ping"})", R"({"jsonrpc":"2.0","id":1.0,"method":"ping"})",
        R"({"id":1,"method":"ping"})", R"({"jsonrpc":2.0,"id":1,"method":"ping"})"})
    CHECK_MESSAGE(outcome(body, {}) == "400 -32600", body);
  CHECK(outcome(R"({"jsonrpc":"2.0","id":1,"method":"ping","params":[]})", {}) == "400 -32602");
  CHECK(outcome(R"({"jsonrpc":"2.0","method":"notifications/initialized"})", {}) == "notification");
  CHECK(outcome(R"({"jsonrpc":"2.0","\u006dethod":"x"})", {}) == "notification");
}

TEST_CASE("a reply has the id of its request, byte for byte") {
  for (const std::string_view id : {"1", "-12345678901234567890", R"("a\"\u00e9")"}) {
    const std::string body = request("ping", "", id);
    const Message message = read(body, {.version = "2025-11-25"});
    REQUIRE(std::holds_alternative<Call>(message));
    CHECK(ping_reply(std::get<Call>(message)) == R"({"jsonrpc":"2.0","id":)" + std::string(id) + R"(,"result":{}})");
  }
  CHECK(Refusal{.message = "m"}.json() == R"({"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"m"}})");
}

TEST_CASE("a call names a tool, and its arguments are an object") {
  const auto named = [](std::string_view params) { return tool_call(Call{.id = "1", .params = params}); };
  const auto call = named(R"({"name":"a","arguments":{"b":1}})");
  REQUIRE(std::holds_alternative<ToolCall>(call));
  CHECK(std::get<ToolCall>(call).name == "a");
  CHECK(std::get<ToolCall>(call).arguments == R"({"b":1})");
  CHECK(std::get<ToolCall>(named(R"({"name":"a"})")).arguments == "{}");
  for (const std::string_view bad : {"{}", R"({"name":7})", R"({"name":"a","arguments":[]})"}) {
    const auto refused = named(bad);
    REQUIRE(std::holds_alternative<Refusal>(refused));
    CHECK(std::get<Refusal>(refused).status == 200);
    CHECK(std::get<Refusal>(refused).fault == Fault::invalid_params);
  }
}

TEST_CASE("results of 2026 say that they are complete and who made them") {
  const Call old{.id = "1", .params = "{}"};
  const Call stateless{.is_stateless = true, .id = "1", .params = "{}"};
  CHECK(
      tool_reply(old, R"({"a":1})", "t", true) ==
      R"({"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"t"}],"structuredContent":{"a":1},"isError":true}})");
  CHECK(tools_reply(old, "[]") == R"({"jsonrpc":"2.0","id":1,"result":{"tools":[]}})");
  CHECK(tools_reply(stateless, "[]") ==
        R"({"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","tools":[],"ttlMs":300000,"cacheScope":"private",)"
        R"("_meta":{"io.modelcontextprotocol/serverInfo":{"name":"sessiond","version":")" SESSIOND_VERSION R"("}}}})");
  const auto version = [](std::string_view params) {
    const std::string reply = initialize_reply(Call{.id = "1", .params = params}, "i");
    return *json::string_at(*json::find(reply, "result"), "protocolVersion");
  };
  CHECK(version(R"({"protocolVersion":"2025-06-18"})") == "2025-06-18");
  CHECK(version(R"({"protocolVersion":"2026-07-28"})") == "2025-11-25");
  CHECK(version("{}") == "2025-11-25");
}
