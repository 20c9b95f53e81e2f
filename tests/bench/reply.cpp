#include "tests/bench/reply.hpp"

#include <strings.h>

#include <charconv>

namespace sessiond::bench {
namespace {

constexpr Reply unreadable{.state = Reply::State::unreadable};

// A status line is "HTTP/1.1 201 Created".
Reply read_http(std::string_view bytes) {
  constexpr std::string_view version = "HTTP/1.1 ";
  constexpr std::string_view length_name = "content-length:";
  const std::size_t head = bytes.find("\r\n\r\n");
  if (head == bytes.npos) return {};
  if (!bytes.starts_with(version) || head < version.size() + 3) return unreadable;
  const std::string_view status = bytes.substr(version.size(), 3);

  std::size_t length = 0;
  bool known = status == "204" || status == "304";
  for (std::size_t line = bytes.find("\r\n") + 2; line < head + 2; line = bytes.find("\r\n", line) + 2) {
    if (::strncasecmp(bytes.data() + line, length_name.data(), length_name.size()) != 0) continue;
    const std::size_t digits = bytes.find_first_not_of(' ', line + length_name.size());
    known = std::from_chars(bytes.data() + digits, bytes.data() + head, length).ec == std::errc();
    break;
  }
  if (!known) return unreadable;
  const std::size_t size = head + 4 + length;
  if (bytes.size() < size) return {};
  return {.state = status[0] == '2' ? Reply::State::good : Reply::State::refused, .size = size};
}

// Only what XADD and HSET answer: one line, or $<length> and a line of that length.
Reply read_redis(std::string_view bytes) {
  std::size_t end = bytes.find("\r\n");
  if (end == bytes.npos) return {};
  if (bytes[0] == '$') {
    std::size_t length = 0;
    if (std::from_chars(bytes.data() + 1, bytes.data() + end, length).ec != std::errc()) return unreadable;
    end += 2 + length;
    return bytes.size() < end + 2 ? Reply{} : Reply{.state = Reply::State::good, .size = end + 2};
  }
  if (bytes[0] != ':' && bytes[0] != '+' && bytes[0] != '-') return unreadable;
  return {.state = bytes[0] == '-' ? Reply::State::refused : Reply::State::good, .size = end + 2};
}

}  // namespace

Reply read_reply(Protocol protocol, std::string_view bytes) {
  return protocol == Protocol::http ? read_http(bytes) : read_redis(bytes);
}

}  // namespace sessiond::bench
