// What is sent: requests built once, into which only a number of fixed width is written before each sending. Paths and
// bodies are those of the HTTP API, version 1; the redis ones are the same bytes as RESP commands, for comparison.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sessiond::bench {

enum class Protocol : std::uint8_t { http, redis };

struct Target {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;
  std::string token;
  std::string agent = "main";
  std::size_t text_bytes = 100;
  bool idempotency_keys = false;  // a new Idempotency-Key with every POST
};

// One connection's request. Every run of eight '#' in the text becomes the number.
class PreparedRequest {
 public:
  explicit PreparedRequest(std::string text);
  // Valid until the next call.
  std::string_view with(std::uint64_t number);

 private:
  std::string text_;
  std::vector<std::size_t> numbers_;
};

// `session` is the ordinal of the session it concerns (`create` makes one for each number). Nothing: no such scenario.
// Scenarios: create append patch get inbound redis-append redis-patch.
std::optional<PreparedRequest> prepare(std::string_view scenario, const Target& target, std::size_t session);
Protocol protocol(std::string_view scenario);

}  // namespace sessiond::bench
