#include "daemon/http/head.hpp"

#include <fmt/format.h>

#include <array>

#include "daemon/http/byte_set.hpp"
#include "store/try.hpp"

namespace sessiond::http {
namespace {

constexpr std::size_t usual_fields = 12;

std::unexpected<Problem> malformed(std::string_view what) {
  return fail(Code::bad_request, fmt::format("not a valid HTTP/1.1 request (RFC 9112): {}", what));
}

// Takes a line off the front of `rest`, without its CR LF. A CR that is not before an LF is in no line.
Result<std::string_view> take_line(std::string_view& rest) {
  const std::size_t end = rest.find('\r');
  if (end == std::string_view::npos || end + 1 >= rest.size() || rest[end + 1] != '\n')
    return malformed("a carriage return without a line feed");
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end + 2);
  return line;
}

// Each byte of a name in lower case; 0 where none may be.
constexpr auto name_bytes = [] {
  std::array<char, 256> bytes{};
  for (unsigned byte = 0; byte < bytes.size(); ++byte) {
    const bool upper = byte >= 'A' && byte <= 'Z';
    if (token_bytes.contains(static_cast<char>(byte))) bytes[byte] = static_cast<char>(upper ? byte - 'A' + 'a' : byte);
  }
  return bytes;
}();

// Makes a name lower-case where it stands, and returns its length: 0 when no name with a colon begins there.
std::size_t lower_name(char* name, std::size_t room) {
  for (std::size_t size = 0; size < room; ++size) {
    const char lower = name_bytes[static_cast<unsigned char>(name[size])];
    if (lower == 0) return name[size] == ':' ? size : 0;
    name[size] = lower;
  }
  return 0;
}

// Looks at all bytes, without an early end, so that the compiler can take many at once.
bool has_control(std::string_view value) {
  bool found = false;
  for (const char c : value) found |= is_control(static_cast<unsigned char>(c));
  return found;
}

std::string_view without_blanks(std::string_view value) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!value.empty() && blank(value.front())) value.remove_prefix(1);
  while (!value.empty() && blank(value.back())) value.remove_suffix(1);
  return value;
}

}  // namespace

Result<RequestLine> parse_head(std::string_view head, Request& request) {
  request.head.assign(head.begin(), head.end());
  char* const start = request.head.data();
  std::string_view rest(start, request.head.size());

  TRY(const std::string_view line, take_line(rest));
  const std::size_t method_end = line.find(' ');
  const std::size_t target_end = line.rfind(' ');
  if (method_end == 0 || method_end == line.npos) return malformed("bad method");
  const std::string_view method = line.substr(0, method_end);
  if (!token_bytes.has_all_of(method)) return malformed("bad method");
  if (target_end <= method_end + 1) return malformed("bad target");
  const std::string_view version = line.substr(target_end + 1);
  if (version.size() != 8 || !version.starts_with("HTTP/1.") || version[7] < '0' || version[7] > '9')
    return malformed("bad version");
  request.method = method;

  request.headers.clear();
  request.headers.reserve(usual_fields);
  for (;;) {
    TRY(const std::string_view field, take_line(rest));
    if (field.empty()) break;
    const std::size_t name = lower_name(start + (field.data() - start), field.size());
    if (name == 0) return malformed("bad field");
    const std::string_view value = without_blanks(field.substr(name + 1));
    if (has_control(value)) return malformed("bad value");
    request.headers.emplace_back(field.substr(0, name), value);
  }
  if (!rest.empty()) return malformed("the header block ends early");
  return RequestLine{.target = line.substr(method_end + 1, target_end - method_end - 1),
                     .minor = version[7] == '0' ? 0 : 1};
}

}  // namespace sessiond::http
