#include "tests/bench/workload.hpp"

#include <algorithm>
#include <initializer_list>

namespace sessiond::bench {
namespace {

constexpr std::string_view marker = "########";

void write_number(char* at, std::uint64_t number) {
  for (std::size_t i = marker.size(); i-- > 0; number /= 10) at[i] = static_cast<char>('0' + number % 10);
}

std::string peer(std::size_t session) {
  std::string name(marker.size(), '0');
  write_number(name.data(), session);
  return "u" + name;
}

std::string key(const Target& target, std::string_view peer) {
  return "agent:" + target.agent + ":bench:direct:" + std::string(peer);
}

// About `bytes` long and never the same twice.
std::string message_text(std::size_t bytes) {
  constexpr std::string_view words = "the quick brown fox jumps over the lazy dog and ";
  std::string text = std::string(marker) + " ";
  while (text.size() < bytes) text += words.substr(0, bytes - text.size());
  return text;
}

std::string http(const Target& target, std::string_view method, std::string_view path, std::string_view type,
                 std::string_view body) {
  std::string text = std::string(method) + " " + std::string(path) + " HTTP/1.1\r\nHost: " + target.host + ":" +
                     std::to_string(target.port) + "\r\nAuthorization: Bearer " + target.token + "\r\n";
  if (target.idempotency_keys && method == "POST") text += "Idempotency-Key: bench:" + std::string(marker) + "\r\n";
  if (!type.empty())
    text += "Content-Type: " + std::string(type) + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n";
  return text + "\r\n" + std::string(body);
}

std::string resp(std::initializer_list<std::string> arguments) {
  std::string text = "*" + std::to_string(arguments.size()) + "\r\n";
  for (const std::string& argument : arguments)
    text += "$" + std::to_string(argument.size()) + "\r\n" + argument + "\r\n";
  return text;
}

}  // namespace

PreparedRequest::PreparedRequest(std::string text) : text_(std::move(text)) {
  for (std::size_t at = text_.find(marker); at != text_.npos; at = text_.find(marker, at + marker.size()))
    numbers_.push_back(at);
}

std::string_view PreparedRequest::with(std::uint64_t number) {
  for (const std::size_t at : numbers_) write_number(text_.data() + at, number);
  return text_;
}

std::optional<PreparedRequest> prepare(std::string_view scenario, const Target& target, std::size_t session) {
  const std::string sessions = "/v1/agents/" + target.agent + "/sessions";
  const std::string mine = key(target, peer(session));
  const std::string message = R"({"role":"user","text":")" + message_text(target.text_bytes) + "\"}";
  const std::string label = R"({"label":"bench-########"})";
  constexpr std::string_view json = "application/json";
  if (scenario == "create") {
    const std::string body = R"({"key":")" + key(target, "u########") +
                             R"(","ifExists":"reuse","entry":{"channel":"bench","chatType":"direct","label":"new"}})";
    return PreparedRequest(http(target, "POST", sessions, json, body));
  }
  if (scenario == "append")
    return PreparedRequest(http(target, "POST", sessions + "/" + mine + "/messages", json, message));
  if (scenario == "patch")
    return PreparedRequest(http(target, "PATCH", sessions + "/" + mine, "application/merge-patch+json", label));
  if (scenario == "get-any") return PreparedRequest(http(target, "GET", "/" + mine, "", ""));  // of another server
  if (scenario == "get") return PreparedRequest(http(target, "GET", sessions + "/" + mine, "", ""));
  if (scenario == "inbound") {
    const std::string body = R"({"agent":")" + target.agent + R"(","channel":"bench","chatType":"direct","peer":")" +
                             peer(session) + R"(","text":")" + message_text(target.text_bytes) + "\"}";
    return PreparedRequest(http(target, "POST", "/v1/inbound", json, body));
  }
  if (scenario == "redis-append") return PreparedRequest(resp({"XADD", "messages:" + mine, "*", "message", message}));
  if (scenario == "redis-patch") return PreparedRequest(resp({"HSET", "session:" + mine, "label", "bench-########"}));
  return std::nullopt;
}

Protocol protocol(std::string_view scenario) {
  return scenario.starts_with("redis-") ? Protocol::redis : Protocol::http;
}

}  // namespace sessiond::bench
