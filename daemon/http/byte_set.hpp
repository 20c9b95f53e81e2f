// Sets of bytes, to look at each byte of a text once.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace sessiond::http {

class ByteSet {
 public:
  template <class In>  // bool(unsigned char)
  explicit constexpr ByteSet(In in) {
    for (unsigned byte = 0; byte < in_.size(); ++byte) in_[byte] = in(static_cast<unsigned char>(byte));
  }
  constexpr bool contains(char c) const { return in_[static_cast<unsigned char>(c)]; }
  constexpr bool has_all_of(std::string_view text) const {
    return std::ranges::all_of(text, [this](char c) { return contains(c); });
  }
  // The first byte of the text that is in the set; its end when none is.
  constexpr std::string_view::const_iterator find_in(std::string_view text) const {
    return std::ranges::find_if(text, [this](char c) { return contains(c); });
  }

 private:
  std::array<bool, 256> in_{};
};

constexpr bool is_alnum(unsigned char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// RFC 9110 §5.6.2: methods, the names of fields, the elements of Connection.
inline constexpr ByteSet token_bytes([](unsigned char c) {
  return is_alnum(c) || std::string_view("!#$%&'*+-.^_`|~").contains(static_cast<char>(c));
});
// In no value of a field: control characters, but for the tab.
constexpr bool is_control(unsigned char c) { return (c < 0x20 && c != '\t') || c == 0x7f; }
inline constexpr ByteSet control_bytes(is_control);

}  // namespace sessiond::http
