// Reads a text that is a number from its first to its last character. Nothing when it is not, or when the type cannot
// hold it.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace sessiond::store {

// `how` is what std::from_chars takes after the value: the base of an integer, or nothing.
template <class Number, class... How>
std::optional<Number> parse_number(std::string_view text, How... how) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number, how...);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return number;
}

}  // namespace sessiond::store
