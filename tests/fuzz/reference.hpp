// HTTP/1.1 requests as RFC 9112 frames them, read as plainly as can be: all bytes at hand, no limits, no semantics.
// What it refuses nobody may serve; what it lets pass may still be refused.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reference {

struct Request {
  std::string method;
  std::string body;
};
struct Seen {
  std::vector<Request> requests{};
  std::string_view rest{};  // from the request on that is not whole or not good
};

inline char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }
inline bool tchar(char c) {
  return (c >= '0' && c <= '9') || (lower(c) >= 'a' && lower(c) <= 'z') ||
         std::string_view("!#$%&'*+-.^_`|~").contains(c);
}
inline bool token(std::string_view text) { return !text.empty() && std::ranges::all_of(text, tchar); }
inline bool text_char(char c) { return c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f); }
inline bool visible(char c) { return c > 0x20 && c < 0x7f; }

// A line that ends in CR LF, without it, taken off the front.
inline std::optional<std::string_view> take_line(std::string_view& bytes) {
  const std::size_t end = bytes.find("\r\n");
  if (end == std::string_view::npos) return {};
  const std::string_view line = bytes.substr(0, end);
  if (line.find_first_of("\r\n") != std::string_view::npos) return {};
  bytes.remove_prefix(end + 2);
  return line;
}

struct Field {
  std::string name, value;
};
// Header or trailer with the empty line behind it.
inline std::optional<std::vector<Field>> take_fields(std::string_view& bytes) {
  std::vector<Field> fields;
  for (;;) {
    const auto line = take_line(bytes);
    if (!line) return {};
    if (line->empty()) return fields;
    const std::size_t colon = std::min(line->find(':'), line->size());
    if (colon == line->size() || !token(line->substr(0, colon))) return {};
    if (!std::ranges::all_of(*line, text_char)) return {};
    Field field{.name = std::string(line->substr(0, colon)), .value = std::string(line->substr(colon + 1))};
    std::ranges::transform(field.name, field.name.begin(), lower);
    std::ranges::transform(field.value, field.value.begin(), lower);
    field.value.erase(0, std::min(field.value.find_first_not_of(" \t"), field.value.size()));
    field.value.erase(field.value.find_last_not_of(" \t") + 1);
    fields.push_back(std::move(field));
  }
}

inline std::optional<std::size_t> number(std::string_view text, unsigned base) {
  if (text.empty()) return {};
  std::size_t value = 0;
  for (const char c : text) {
    const char small = lower(c);
    unsigned digit = 99;
    if (small >= '0' && small <= '9') digit = static_cast<unsigned>(small - '0');
    if (small >= 'a' && small <= 'f') digit = static_cast<unsigned>(small - 'a') + 10;
    if (digit >= base || value > (1U << 26)) return {};
    value = value * base + digit;
  }
  return value;
}

inline std::optional<std::string> take_chunks(std::string_view& bytes) {
  std::string body;
  for (;;) {
    const auto line = take_line(bytes);
    if (!line) return {};
    const std::size_t digits = std::min(line->find_first_not_of("0123456789abcdefABCDEF"), line->size());
    const auto size = number(line->substr(0, digits), 16);
    const std::string_view extension = line->substr(digits);
    if (!size || !std::ranges::all_of(extension, text_char)) return {};
    if (!extension.empty() && !extension.contains(';')) return {};
    if (*size == 0) return take_fields(bytes) ? std::optional(body) : std::nullopt;
    if (bytes.size() < *size + 2 || bytes.substr(*size, 2) != "\r\n") return {};
    body.append(bytes.substr(0, *size));
    bytes.remove_prefix(*size + 2);
  }
}

inline std::optional<Request> take_request(std::string_view& bytes) {
  const auto line = take_line(bytes);
  if (!line) return {};
  const std::size_t first = line->find(' ');
  const std::size_t second = line->rfind(' ');
  if (first == std::string_view::npos || first == second) return {};
  std::string_view version = line->substr(second + 1);
  if (version.size() != 8 || !version.starts_with("HTTP/1.") || version[7] < '0' || version[7] > '9') return {};
  if (version != "HTTP/1.0") version = "HTTP/1.1";
  const std::string_view target = line->substr(first + 1, second - first - 1);
  if (!token(line->substr(0, first)) || target.empty() || !std::ranges::all_of(target, visible)) return {};
  const auto fields = take_fields(bytes);
  if (!fields) return {};
  const Field *length = nullptr, *coding = nullptr, *host = nullptr;
  for (const Field& field : *fields) {
    const Field** slot = field.name == "content-length"      ? &length
                         : field.name == "transfer-encoding" ? &coding
                         : field.name == "host"              ? &host
                                                             : nullptr;
    if (!slot) continue;
    if (*slot) return {};
    *slot = &field;
  }
  if ((!host && version == "HTTP/1.1") || (length && coding)) return {};
  Request request{.method = std::string(line->substr(0, first)), .body = {}};
  if (coding) {
    if (coding->value != "chunked" || version == "HTTP/1.0") return {};
    auto body = take_chunks(bytes);
    if (!body) return {};
    request.body = std::move(*body);
  } else if (length) {
    const auto size = number(length->value, 10);
    if (!size || bytes.size() < *size) return {};
    request.body = bytes.substr(0, *size);
    bytes.remove_prefix(*size);
  }
  return request;
}

inline Seen read(std::string_view bytes) {
  Seen seen;
  for (;;) {
    while (bytes.starts_with("\r\n")) bytes.remove_prefix(2);
    seen.rest = bytes;
    auto request = take_request(bytes);
    if (!request) return seen;
    seen.requests.push_back(std::move(*request));
  }
}

}  // namespace reference
