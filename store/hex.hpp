// Bytes as lower-case hexadecimal digits, two a byte, and back.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace sessiond::store {

inline constexpr std::string_view hex_digits = "0123456789abcdef";

inline std::string to_hex(std::span<const unsigned char> bytes) {
  std::string text(2 * bytes.size(), '0');
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    text[2 * i] = hex_digits[bytes[i] >> 4U];
    text[2 * i + 1] = hex_digits[bytes[i] & 15U];
  }
  return text;
}

// Returns false when the text is anything but two lower-case digits for each of `bytes`, which are then half written.
inline bool from_hex(std::string_view text, std::span<unsigned char> bytes) {
  if (text.size() != 2 * bytes.size()) return false;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const std::size_t high = hex_digits.find(text[2 * i]);
    const std::size_t low = hex_digits.find(text[2 * i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) return false;
    bytes[i] = static_cast<unsigned char>(high << 4U | low);
  }
  return true;
}

}  // namespace sessiond::store
