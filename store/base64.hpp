// Base64 (RFC 4648). Pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace sessiond::store {

// As RFC 4648 §4 has it, with padding and without line breaks.
constexpr std::size_t base64_size(std::size_t bytes) { return (bytes + 2) / 3 * 4; }
// Writes base64_size(bytes.size()) characters.
void to_base64(std::string_view bytes, char* out);
std::string to_base64(std::string_view bytes);
// Replaces `out` by the bytes. Returns false for anything but the one text that to_base64 makes of them.
bool from_base64(std::string_view text, std::string& out);

// The forms in which programs write it: either alphabet, with padding or without.
struct Base64Form {
  bool url = false;      // '-' and '_' in place of '+' and '/'
  bool padded = true;    // '=' at the end, where there is a rest
  bool slashes = false;  // each '/' is written as "\/", as some programs do in JSON
  friend bool operator==(const Base64Form&, const Base64Form&) = default;
};
struct Base64Decoded {
  std::string bytes{};
  Base64Form form{};  // to_base64(bytes, form) is the text that was decoded
};
std::string to_base64(std::string_view bytes, Base64Form form);
// Nothing: it is not base64, or not in one of these forms throughout.
std::optional<Base64Decoded> from_base64(std::string_view text);

}  // namespace sessiond::store
