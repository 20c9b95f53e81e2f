#include "formats/yaml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "store/json/raw_json.hpp"
#include "store/names.hpp"
#include "store/utf8.hpp"

namespace sessiond::formats {
namespace {

// Longer keys need a "?" before them: YAML takes at most 1024 characters for a key that stands on the line of its
// value.
constexpr std::size_t longest_plain_key = 1000;

bool is_plain(std::string_view text) {
  constexpr std::array<std::string_view, 9> words{"y", "n", "yes", "no", "on", "off", "true", "false", "null"};
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto rest = [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '.' || c == '/' || c == '-'; };
  return !text.empty() && letter(text.front()) && std::ranges::all_of(text, rest) &&
         (text.size() > 5 || std::ranges::find(words, store::lower(text)) == words.end());
}

// Appends a string as JSON has it. YAML wants more escapes: of DEL, C1, the line breaks of Unicode, BOM and what is no
// character.
void append_escaped(std::string& out, std::string_view text) {
  const std::string quoted = json::quote(text);
  for (std::size_t at = 0; at < quoted.size();) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(quoted[at + i]); };
    const std::size_t size = std::max<std::size_t>(store::utf8_sequence(quoted, at), 1);
    unsigned point = byte(0);
    if (size == 2) point = (byte(0) & 0x1FU) << 6U | (byte(1) & 0x3FU);
    if (size == 3) point = (byte(0) & 0x0FU) << 12U | (byte(1) & 0x3FU) << 6U | (byte(2) & 0x3FU);
    const bool escaped = (point >= 0x7F && point <= 0x9F) || point == 0x2028 || point == 0x2029 || point == 0xFEFF ||
                         point == 0xFFFE || point == 0xFFFF;
    if (size <= 3 && escaped)
      out += fmt::format("\\u{:04x}", point);
    else
      out.append(quoted, at, size);
    at += size;
  }
}

void append_text(std::string& out, std::string_view text) {
  if (is_plain(text))
    out += text;
  else
    append_escaped(out, text);
}

// Appends a number as both versions of YAML read it: 1e5 is 100000.0. One that no double holds is a string.
void append_number(std::string& out, std::string_view number) {
  if (number.find_first_of(".eE") == std::string_view::npos && number != "-0") {
    out += number;
    return;
  }
  const auto value = json::as_double(number);
  std::string text = value && std::isfinite(*value) ? fmt::format("{}", *value) : "";
  if (text.find('.') == std::string::npos) text.insert(std::min(text.find('e'), text.size()), ".0");
  if (value && json::check(text) && json::same(text, number))
    out += text;
  else
    append_escaped(out, number);
}

void append_scalar(std::string& out, std::string_view value) {
  switch (json::kind(value)) {
    case json::Kind::string:
      return append_text(out, *json::as_string(value));
    case json::Kind::number:
      return append_number(out, value);
    default:
      out += value;
  }
}

using Members = std::map<std::string, std::string_view>;  // in the order of code points: that of UTF-8
Members members_of(std::string_view object) {
  Members found;
  for (const json::Member& member : json::members(object))
    found[*json::as_string(fmt::format("\"{}\"", member.name))] = member.value;
  return found;
}

bool is_collection(std::string_view value) {
  if (json::kind(value) == json::Kind::object) return json::members(value).begin() != std::default_sentinel;
  return json::kind(value) == json::Kind::array && json::elements(value).begin() != std::default_sentinel;
}

// Appends a value on one line.
void append_flow(std::string& out, std::string_view value) {
  const char* between = "";
  if (json::kind(value) == json::Kind::object) {
    out += '{';
    for (const auto& [name, member] : members_of(value)) {
      out += std::exchange(between, ", ");
      if (name.size() > longest_plain_key) out += "? ";
      append_text(out, name);
      out += ": ";
      append_flow(out, member);
    }
    out += '}';
  } else if (json::kind(value) == json::Kind::array) {
    out += '[';
    for (const std::string_view element : json::elements(value)) {
      out += std::exchange(between, ", ");
      append_flow(out, element);
    }
    out += ']';
  } else {
    append_scalar(out, value);
  }
}

void append_block(std::string& out, std::string_view value, std::size_t level, bool indented);

void indent(std::string& out, std::size_t level) { out.append(2 * level, ' '); }

void append_member(std::string& out, std::string_view name, std::string_view value, std::size_t level) {
  const bool named_apart = name.size() > longest_plain_key;
  if (named_apart) out += "? ";
  append_text(out, name);
  if (named_apart) {
    out += '\n';
    indent(out, level);
  }
  out += ':';
  if (is_collection(value) && level < deepest_yaml_level) {
    out += '\n';
    append_block(out, value, level + 1, true);
  } else {
    out += ' ';
    append_flow(out, value);
    out += '\n';
  }
}

// Appends the lines of an object or array that has something in it. `indented`: also the first one is.
void append_block(std::string& out, std::string_view value, std::size_t level, bool indented) {
  const auto begin_line = [&] {
    if (std::exchange(indented, true)) indent(out, level);
  };
  if (json::kind(value) == json::Kind::object) {
    for (const auto& [name, member] : members_of(value)) {
      begin_line();
      append_member(out, name, member, level);
    }
    return;
  }
  for (const std::string_view element : json::elements(value)) {
    begin_line();
    out += "- ";
    if (is_collection(element) && level < deepest_yaml_level) {
      append_block(out, element, level + 1, false);
    } else {
      append_flow(out, element);
      out += '\n';
    }
  }
}

}  // namespace

void append_yaml_members(std::string& out, std::string_view object, std::size_t level) {
  append_block(out, object, level, true);
}

void append_yaml_element(std::string& out, std::string_view value, std::size_t level) {
  append_block(out, fmt::format("[{}]", value), level, true);
}

}  // namespace sessiond::formats
