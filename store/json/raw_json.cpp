#include "store/json/raw_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "store/json/scan.hpp"
#include "store/number.hpp"
#include "store/utf8.hpp"

namespace sessiond::json {
namespace {

std::size_t skip_space(std::string_view text, std::size_t at) {
  while (at < text.size() && is_space(text[at])) ++at;
  return at;
}

// The beginning of the next member or element.
std::size_t skip_comma(std::string_view text) {
  const std::size_t at = skip_space(text, 0);
  return at < text.size() && text[at] == ',' ? skip_space(text, at + 1) : at;
}

// The bytes that follow a number, true, false or null.
constexpr auto ends_scalar = [] {
  std::array<bool, 256> ends{};
  for (const char c : std::string_view(",]} \n\r\t")) ends[static_cast<unsigned char>(c)] = true;
  return ends;
}();

std::size_t skip_value(std::string_view text, std::size_t at) {
  if (at >= text.size()) return at;
  if (text[at] == '"') return skip_string(text, at);
  if (text[at] != '{' && text[at] != '[') {
    while (at < text.size() && !ends_scalar[static_cast<unsigned char>(text[at])]) ++at;
    return at;
  }
  return skip_nested(text, at);
}

std::optional<std::uint32_t> hex4(std::string_view text, std::size_t at) {
  if (at + 4 > text.size()) return {};
  return store::parse_number<std::uint32_t>(text.substr(at, 4), 16);
}

// The code point of an escape whose 'u' is at `at`; moves `at` behind it. Half a surrogate pair is U+FFFD.
std::uint32_t take_unicode_escape(std::string_view text, std::size_t& at) {
  const auto high = hex4(text, at + 1);
  if (!high) {
    ++at;
    return 0xFFFD;
  }
  at += 5;
  if (*high < 0xD800 || *high > 0xDFFF) return *high;
  if (*high >= 0xDC00 || at + 1 >= text.size() || text[at] != '\\' || text[at + 1] != 'u') return 0xFFFD;
  const auto low = hex4(text, at + 2);
  if (!low || *low < 0xDC00 || *low > 0xDFFF) return 0xFFFD;
  at += 6;
  return 0x10000 + ((*high - 0xD800) << 10) + (*low - 0xDC00);
}

// Escapes only make a name longer, so most names differ by their size.
bool same_name(std::string_view raw, std::string_view name) {
  if (raw.size() <= name.size()) return raw == name && raw.find('\\') == std::string_view::npos;
  return raw.find('\\') != std::string_view::npos && unescape(raw) == name;
}

}  // namespace

Kind kind(std::string_view value) {
  switch (value.empty() ? '\0' : value.front()) {
    case '{':
      return Kind::object;
    case '[':
      return Kind::array;
    case '"':
      return Kind::string;
    case 't':
    case 'f':
      return Kind::boolean;
    case 'n':
      return Kind::null;
    default:
      return Kind::number;
  }
}

template <class Value>
ValueIterator<Value>::ValueIterator(std::string_view text) {
  const std::size_t open = skip_space(text, 0);
  if (open >= text.size() || text[open] != (std::is_same_v<Value, Member> ? '{' : '[')) return;
  rest_ = text.substr(open + 1);
  ++*this;
}
template ValueIterator<Member>::ValueIterator(std::string_view);
template ValueIterator<std::string_view>::ValueIterator(std::string_view);

template <>
MemberIterator& MemberIterator::operator++() {
  done_ = true;  // unless there is another whole member
  std::size_t at = skip_comma(rest_);
  if (at >= rest_.size() || rest_[at] != '"') return *this;
  const std::size_t name_end = skip_string(rest_, at);
  if (name_end < at + 2) return *this;
  value_.name = rest_.substr(at + 1, name_end - at - 2);
  at = skip_space(rest_, name_end);
  if (at < rest_.size() && rest_[at] == ':') at = skip_space(rest_, at + 1);
  take_value(at, value_.value);
  return *this;
}

template <>
ElementIterator& ElementIterator::operator++() {
  done_ = true;
  const std::size_t at = skip_comma(rest_);
  if (at < rest_.size() && rest_[at] != ']') take_value(at, value_);
  return *this;
}

template <class Value>
void ValueIterator<Value>::take_value(std::size_t at, std::string_view& value) {
  const std::size_t end = skip_value(rest_, at);
  if (end == at) return;
  value = rest_.substr(at, end - at);
  rest_.remove_prefix(end);
  done_ = false;
}

std::optional<std::string_view> find(std::string_view object, std::string_view name) {
  std::optional<std::string_view> found;
  for (const Member& member : members(object)) {
    if (same_name(member.name, name)) found = member.value;
  }
  return found;
}

std::vector<Member> all_members(std::string_view object) {
  constexpr std::size_t usual = 32;
  std::vector<Member> all;
  all.reserve(usual);
  for (const Member& member : members(object)) all.push_back(member);
  return all;
}

Index::Index(std::vector<Member> members) : members_(std::move(members)) {
  for (Member& member : members_) {
    if (member.name.contains('\\')) member.name = resolved_.emplace_front(unescape(member.name));
  }
  if (members_.size() <= few) return;
  std::ranges::sort(members_, [](const Member& a, const Member& b) {
    return a.name != b.name ? a.name < b.name : a.value.data() < b.value.data();
  });
}

std::optional<std::string_view> Index::find(std::string_view name) const {
  if (members_.size() <= few) {
    const auto last = std::ranges::find(members_.rbegin(), members_.rend(), name, &Member::name);
    return last == members_.rend() ? std::nullopt : std::optional(last->value);
  }
  const auto behind = std::ranges::upper_bound(members_, name, {}, &Member::name);
  if (behind == members_.begin() || std::prev(behind)->name != name) return {};
  return std::prev(behind)->value;
}

std::optional<std::string> Index::string_at(std::string_view name) const {
  const auto value = find(name);
  return value ? as_string(*value) : std::nullopt;
}

std::optional<std::int64_t> Index::int_at(std::string_view name) const {
  const auto value = find(name);
  return value ? as_int(*value) : std::nullopt;
}

std::string_view value_at(std::string_view text, std::size_t at) { return text.substr(at, skip_value(text, at) - at); }

std::size_t count_members(std::string_view value) {
  std::size_t count = 0;
  for (std::size_t at = 0; at < value.size();) {
    if (value[at] == '"') {
      at = skip_string(value, at);
    } else {
      count += value[at] == ':' ? 1 : 0;
      ++at;
    }
  }
  return count;
}

std::string unescape(std::string_view inner) {
  if (inner.find('\\') == std::string_view::npos) return std::string(inner);
  std::string out;
  out.reserve(inner.size());
  std::size_t at = 0;
  while (at < inner.size()) {
    if (inner[at] != '\\' || at + 1 >= inner.size()) {
      out += inner[at++];
      continue;
    }
    const char escape = inner[++at];
    if (escape == 'u') {
      store::append_utf8(out, take_unicode_escape(inner, at));
      continue;
    }
    ++at;
    out += meant_by_escape(escape);
  }
  return out;
}

std::optional<std::string> as_string(std::string_view value) {
  if (value.size() < 2 || value.front() != '"') return {};
  return unescape(value.substr(1, value.size() - 2));
}

std::optional<std::int64_t> as_int(std::string_view value) {
  if (const auto number = store::parse_number<std::int64_t>(value)) return number;
  const auto real = as_double(value);
  constexpr double exact = 9007199254740992.0;  // 2^53
  if (!real || std::floor(*real) != *real || std::abs(*real) > exact) return {};
  return static_cast<std::int64_t>(*real);
}

std::optional<double> as_double(std::string_view value) {
  if (value.empty() || kind(value) != Kind::number) return {};
  double number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc{} || end != value.data() + value.size()) return {};
  return number;
}

std::optional<bool> as_bool(std::string_view value) {
  if (value == "true") return true;
  if (value == "false") return false;
  return {};
}

std::optional<std::string> string_at(std::string_view object, std::string_view name) {
  const auto value = find(object, name);
  return value ? as_string(*value) : std::nullopt;
}

std::optional<std::int64_t> int_at(std::string_view object, std::string_view name) {
  const auto value = find(object, name);
  return value ? as_int(*value) : std::nullopt;
}

std::vector<std::pair<std::uint64_t, std::uint64_t>> pairs_at(std::string_view object, std::string_view name) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> pairs;
  for (const std::string_view pair : elements(find(object, name).value_or("[]"))) {
    std::vector<std::uint64_t> numbers;
    for (const std::string_view number : elements(pair))
      numbers.push_back(static_cast<std::uint64_t>(as_int(number).value_or(0)));
    if (numbers.size() == 2) pairs.emplace_back(numbers[0], numbers[1]);
  }
  return pairs;
}

std::string_view compacted(std::string_view value, std::string& held) {
  std::size_t plain = 0;  // where the bytes begin that are not copied yet
  for (std::size_t at = 0; at < value.size();) {
    if (value[at] == '"') {
      at = skip_string(value, at);
      continue;
    }
    if (is_space(value[at])) {
      if (plain == 0) {
        held.clear();
        held.reserve(value.size());
      }
      held.append(value, plain, at - plain);
      plain = at + 1;
    }
    ++at;
  }
  if (plain == 0) return value;
  return held.append(value, plain);
}

std::string compact(std::string_view value) {
  std::string held;
  const std::string_view out = compacted(value, held);
  return out.data() == held.data() ? std::move(held) : std::string(out);
}

}  // namespace sessiond::json
