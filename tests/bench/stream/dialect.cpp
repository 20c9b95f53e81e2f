#include "tests/bench/stream/dialect.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>

namespace sessiond::bench::stream {
namespace {

constexpr std::string_view sign = "!#";
constexpr std::size_t number_digits = 10;
constexpr std::size_t time_digits = 20;
constexpr std::size_t mark_size = sign.size() + number_digits + 1 + time_digits + 1;  // !#<number>@<time>;

void append_padded(std::string& out, std::uint64_t number, std::size_t digits) {
  const std::string text = std::to_string(number);
  out.append(digits - text.size(), '0') += text;
}

std::uint64_t read_digits(std::string_view text) {
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

Block read_sessiond(std::string_view block) {
  using Kind = Block::Kind;
  if (!block.starts_with("id: ")) return {};
  const std::size_t line = std::min(block.find('\n'), block.size());
  const std::string_view id = block.substr(4, line - 4);
  const std::size_t dash = id.find('-');
  if (dash == id.npos) return {};
  const std::string_view rest = block.substr(std::min(line + 1, block.size()));
  const Kind kind = rest.empty()                                ? Kind::position
                    : !rest.starts_with("event: stream.")       ? Kind::event
                    : rest.starts_with("event: stream.hello\n") ? Kind::hello
                    : rest.starts_with("event: stream.gap\n")   ? Kind::gap
                                                                : Kind::nothing;
  return {.kind = kind, .number = read_digits(id.substr(dash + 1)), .epoch = id.substr(0, dash)};
}

std::string http(const Plan& plan, std::string_view method, std::string_view path) {
  std::string text = std::string(method) + " " + std::string(path) + " HTTP/1.1\r\nHost: " + plan.host + ":" +
                     std::to_string(plan.port) + "\r\n";
  if (!plan.token.empty()) text += "Authorization: Bearer " + plan.token + "\r\n";
  return text;
}

// The bytes that the bare server sends on as they are: what nchan makes of a message.
std::string bare_event(const Mark& mark, std::size_t payload) {
  return "id: " + std::to_string(mark.number) + ":0\ndata: " + mark_text(mark, payload) + "\n\n";
}

}  // namespace

std::string mark_text(const Mark& mark, std::size_t payload) {
  constexpr std::string_view words = "the quick brown fox jumps over the lazy dog and ";
  std::string text(sign);
  append_padded(text, mark.number, number_digits);
  text += '@';
  append_padded(text, mark.sent_ns, time_digits);
  text += ';';
  while (text.size() < payload) text += words.substr(0, payload - text.size());
  return text;
}

std::size_t find_mark(std::string_view block) {
  const std::size_t at = block.find(sign);
  return at == block.npos || at + mark_size > block.size() ? block.npos : at;
}

Mark read_mark(std::string_view block, std::size_t at) {
  at += sign.size();
  return {.number = read_digits(block.substr(at, number_digits)),
          .sent_ns = read_digits(block.substr(at + number_digits + 1, time_digits))};
}

Block read_block(Server server, std::string_view block) {
  if (server == Server::sessiond) return read_sessiond(block);
  const std::size_t at = find_mark(block);
  if (at == block.npos) return {};
  return {.kind = Block::Kind::event, .number = read_mark(block, at).number};
}

std::optional<std::uint64_t> number_after(std::string_view text, std::string_view name) {
  const std::size_t at = text.find(name);
  if (at == text.npos) return std::nullopt;
  return read_digits(text.substr(at + name.size()));
}

std::string subscribe_request(const Plan& plan, std::string_view last_event_id) {
  std::string text = http(plan, "GET", plan.path) + "Accept: text/event-stream\r\n";
  if (!last_event_id.empty()) text += "Last-Event-ID: " + std::string(last_event_id) + "\r\n";
  return text + "\r\n";
}

std::string publish_request(const Plan& plan, std::size_t publisher, const Mark& mark) {
  std::string text;
  std::string body;
  switch (plan.server) {
    case Server::sessiond: {
      const std::size_t session = publisher % plan.sessions;
      char key[64];
      std::snprintf(key, sizeof key, "agent:main:bench:direct:u%08zu", session);
      text = http(plan, "POST", "/v1/agents/main/sessions/" + std::string(key) + "/messages");
      body = R"({"role":"user","text":")" + mark_text(mark, plan.payload) + "\"}";
      text += "Content-Type: application/json\r\n";
      if (plan.reconnect) text += "Idempotency-Key: bench:" + std::to_string(mark.number) + "\r\n";
      break;
    }
    case Server::nchan:
      text = http(plan, "POST", plan.publish_path);
      body = mark_text(mark, plan.payload);
      break;
    case Server::bare:
      text = http(plan, "POST", "/");
      body = bare_event(mark, plan.payload);
      break;
  }
  return text + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

}  // namespace sessiond::bench::stream
