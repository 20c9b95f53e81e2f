// Compares two JSON values by their meaning. A foreign program that reads a store and writes it again may escape
// strings, write numbers and order members differently, without having changed anything.
#include <algorithm>
#include <charconv>
#include <map>
#include <ranges>
#include <vector>

#include "store/json/raw_json.hpp"
#include "store/json/scan.hpp"
#include "store/utf8.hpp"

namespace sessiond::json {
namespace {

constexpr int most_depth = 64;  // deeper values are compared token by token

bool is_surrogate(char32_t unit, char32_t first) { return unit >= first && unit < first + 0x400; }

// The text of a string as code points. Half a surrogate pair and a byte that is not UTF-8 keep their value instead of
// becoming U+FFFD: two different ones must stay different.
std::u32string decoded(std::string_view inner) {
  std::u32string out;
  out.reserve(inner.size());
  const auto escape = [&](std::size_t at) -> std::size_t {
    const char name = at + 1 < inner.size() ? inner[at + 1] : '\\';
    if (name != 'u') {
      out += static_cast<unsigned char>(meant_by_escape(name));
      return 2;
    }
    std::uint32_t unit = 0;
    const std::string_view digits = inner.substr(std::min(at + 2, inner.size()), 4);
    std::from_chars(digits.data(), digits.data() + digits.size(), unit, 16);
    if (is_surrogate(unit, 0xDC00) && !out.empty() && is_surrogate(out.back(), 0xD800))
      out.back() = 0x10000 + ((out.back() - 0xD800) << 10) + (unit - 0xDC00);
    else
      out += static_cast<char32_t>(unit);
    return 6;
  };
  for (std::size_t at = 0; at < inner.size();) {
    if (inner[at] == '\\') {
      at += escape(at);
      continue;
    }
    const std::size_t length = store::utf8_sequence(inner, at);
    const auto lead = static_cast<unsigned char>(inner[at]);
    char32_t point = length == 0 ? 0x110000U + lead : length == 1 ? lead : lead & (0x7FU >> length);
    for (std::size_t next = 1; next < length; ++next)
      point = point << 6 | (static_cast<unsigned char>(inner[at + next]) & 0x3FU);
    out += point;
    at += std::max<std::size_t>(length, 1);
  }
  return out;
}

// A number: its sign, its digits without leading and trailing zeros, and a power of ten.
struct Decimal {
  bool negative = false;
  std::string digits{};
  std::int64_t exponent = 0;
  bool operator==(const Decimal&) const = default;
};

// Nothing for an exponent of more than 9 digits: such numbers are equal only if their texts are.
std::optional<Decimal> decimal(std::string_view number) {
  Decimal out{.negative = number.starts_with('-')};
  const std::size_t mark = std::min(number.find_first_of("eE"), number.size());
  if (mark < number.size()) {
    const std::string_view power = number.substr(mark + (number.substr(mark + 1).starts_with('+') ? 2 : 1));
    if (power.size() > 9) return {};
    std::from_chars(power.data(), power.data() + power.size(), out.exponent);
  }
  bool fraction = false;
  for (const char c : number.substr(0, mark)) {
    if (c == '.') fraction = true;
    if (c < '0' || c > '9') continue;
    if (c != '0' || !out.digits.empty()) out.digits += c;
    out.exponent -= fraction ? 1 : 0;
  }
  while (out.digits.ends_with('0')) {
    out.digits.pop_back();
    ++out.exponent;
  }
  return out.digits.empty() ? Decimal{} : out;  // -0 is 0
}

bool same_at(std::string_view a, std::string_view b, int depth);

bool same_objects(std::string_view a, std::string_view b, int depth) {
  const auto by_name = [](std::string_view object) {
    std::map<std::u32string, std::string_view> all;  // of duplicates the last, as in JSON.parse
    for (const Member& member : members(object)) all[decoded(member.name)] = member.value;
    return all;
  };
  return std::ranges::equal(by_name(a), by_name(b), [depth](const auto& left, const auto& right) {
    return left.first == right.first && same_at(left.second, right.second, depth);
  });
}

bool same_arrays(std::string_view a, std::string_view b, int depth) {
  return std::ranges::equal(elements(a), elements(b), [depth](std::string_view left, std::string_view right) {
    return same_at(left, right, depth);
  });
}

bool same_at(std::string_view a, std::string_view b, int depth) {
  if (a == b) return true;
  if (kind(a) != kind(b)) return false;
  switch (kind(a)) {
    case Kind::string:
      return decoded(a.substr(1, a.size() - 2)) == decoded(b.substr(1, b.size() - 2));
    case Kind::number: {
      const auto left = decimal(a);
      return left && left == decimal(b);
    }
    case Kind::object:
      return depth == most_depth ? compact(a) == compact(b) : same_objects(a, b, depth + 1);
    case Kind::array:
      return depth == most_depth ? compact(a) == compact(b) : same_arrays(a, b, depth + 1);
    case Kind::boolean:
    case Kind::null:
      return false;
  }
  return false;
}

void append_canonical(std::string& out, std::string_view value, int depth) {
  switch (kind(value)) {
    case Kind::number: {
      const auto number = decimal(value);
      out += number ? (number->negative ? "-" : "") + number->digits + 'e' + std::to_string(number->exponent)
                    : std::string(value);
      return;
    }
    case Kind::string:
      return append_quoted(out, as_string(value).value_or(""));
    case Kind::object: {
      if (depth == most_depth) break;
      std::map<std::string, std::string_view> all;  // of duplicates the last, as in JSON.parse
      for (const Member& member : members(value)) all[unescape(member.name)] = member.value;
      for (char before = '{'; const auto& [name, held] : all) {
        out += std::exchange(before, ',');
        append_quoted(out, name);
        out += ':';
        append_canonical(out, held, depth + 1);
      }
      out += all.empty() ? "{}" : "}";
      return;
    }
    case Kind::array: {
      if (depth == most_depth) break;
      char before = '[';
      for (const std::string_view element : elements(value)) {
        out += std::exchange(before, ',');
        append_canonical(out, element, depth + 1);
      }
      out += before == '[' ? "[]" : "]";
      return;
    }
    case Kind::boolean:
    case Kind::null:
      break;
  }
  out += compact(value);
}

}  // namespace

bool same(std::string_view a, std::string_view b) { return same_at(a, b, 0); }

std::string canonical(std::string_view value) {
  std::string out;
  out.reserve(value.size());
  append_canonical(out, value, 0);
  return out;
}

}  // namespace sessiond::json
