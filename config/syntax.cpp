#include "config/syntax.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/value_stack.hpp>
#include <set>

namespace sessiond::config {
namespace {

namespace bj = boost::json;

// Builds the value as Boost's own parser does, and remembers the names that each open object has so far.
struct Handler {
  static constexpr std::size_t max_object_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_array_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_key_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_string_size = static_cast<std::size_t>(-1);

  struct Open {
    std::string pointer;
    bool array = false;
    std::size_t index = 0;
    std::set<std::string, std::less<>> names{};
    std::string member{};
  };
  bj::value_stack values;
  std::vector<Open> open;
  std::string name;
  std::vector<std::string> duplicates;

  Handler() { values.reset(); }

  std::string here() const {
    if (open.empty()) return {};
    const Open& parent = open.back();
    return pointer_to(parent.pointer, parent.array ? std::to_string(parent.index) : parent.member);
  }
  void begin(bool array) { open.push_back({.pointer = here(), .array = array}); }
  void end() {
    open.pop_back();
    took();
  }
  void took() {
    if (!open.empty() && open.back().array) ++open.back().index;
  }

  bool on_document_begin(bj::error_code&) { return true; }
  bool on_document_end(bj::error_code&) { return true; }
  bool on_object_begin(bj::error_code&) { return begin(false), true; }
  bool on_object_end(std::size_t n, bj::error_code&) { return values.push_object(n), end(), true; }
  bool on_array_begin(bj::error_code&) { return begin(true), true; }
  bool on_array_end(std::size_t n, bj::error_code&) { return values.push_array(n), end(), true; }
  bool on_key_part(bj::string_view part, std::size_t, bj::error_code&) {
    values.push_chars(part);
    name.append(part.data(), part.size());
    return true;
  }
  bool on_key(bj::string_view part, std::size_t, bj::error_code&) {
    values.push_key(part);
    name.append(part.data(), part.size());
    Open& object = open.back();
    object.member = name;
    if (!object.names.insert(std::move(name)).second) duplicates.push_back(here());
    name.clear();
    return true;
  }
  bool on_string_part(bj::string_view part, std::size_t, bj::error_code&) { return values.push_chars(part), true; }
  bool on_string(bj::string_view part, std::size_t, bj::error_code&) { return values.push_string(part), took(), true; }
  bool on_number_part(bj::string_view, bj::error_code&) { return true; }
  bool on_int64(std::int64_t number, bj::string_view, bj::error_code&) {
    return values.push_int64(number), took(), true;
  }
  bool on_uint64(std::uint64_t number, bj::string_view, bj::error_code&) {
    return values.push_uint64(number), took(), true;
  }
  bool on_double(double number, bj::string_view, bj::error_code&) { return values.push_double(number), took(), true; }
  bool on_bool(bool value, bj::error_code&) { return values.push_bool(value), took(), true; }
  bool on_null(bj::error_code&) { return values.push_null(), took(), true; }
  bool on_comment_part(bj::string_view, bj::error_code&) { return true; }
  bool on_comment(bj::string_view, bj::error_code&) { return true; }
};

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

std::string what_stands_at(std::string_view text, std::size_t at) {
  if (at >= text.size()) return "the text ends here";
  const bool printable = text[at] >= 0x20 && text[at] < 0x7f;
  return printable ? fmt::format("found '{}'", text[at])
                   : fmt::format("found byte 0x{:02x}", static_cast<unsigned char>(text[at]));
}

ConfigFault syntax_fault(std::string_view text, std::size_t at, const bj::error_code& error) {
  at = std::min(at, text.size());
  const std::string_view before = text.substr(0, at);
  const auto line = 1 + std::ranges::count(before, '\n');
  const std::size_t newline = before.rfind('\n');
  const std::string_view in_line = newline == std::string_view::npos ? before : before.substr(newline + 1);
  const auto column = 1 + std::ranges::count_if(in_line, [](char c) { return !continues_character(c); });
  return {"", fmt::format("line {}, column {}: {}, {}", line, column, error.message(), what_stands_at(text, at))};
}

}  // namespace

std::string pointer_to(std::string_view parent, std::string_view name) {
  std::string pointer(parent);
  pointer += '/';
  for (const char c : name) {
    if (c == '~')
      pointer += "~0";
    else if (c == '/')
      pointer += "~1";
    else
      pointer += c;
  }
  return pointer;
}

std::expected<Document, ConfigFault> parse_document(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // some editors begin files with a byte order mark
  bj::parse_options options;
  options.allow_comments = true;
  options.allow_trailing_commas = true;
  bj::basic_parser<Handler> parser(options);
  bj::error_code error;
  const std::size_t read = parser.write_some(false, text.data(), text.size(), error);
  if (!error && read < text.size()) error = bj::error::extra_data;
  if (error) return std::unexpected(syntax_fault(text, read, error));
  Handler& handler = parser.handler();
  return Document{.root = handler.values.release(), .duplicates = std::move(handler.duplicates)};
}

}  // namespace sessiond::config
