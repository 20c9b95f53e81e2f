#include <algorithm>

#include "store/json/raw_json.hpp"
#include "store/json/scan.hpp"
#include "store/utf8.hpp"

namespace sessiond::json {
namespace {

// Which half of a pair the escape at `at` is: 'h' the first one, 'l' the second one, 0 neither.
char half_at(std::string_view text, std::size_t at) {
  const std::string_view escape = text.substr(std::min(at, text.size()), 6);
  if (escape.size() < 6 || !escape.starts_with("\\u") || (escape[2] != 'd' && escape[2] != 'D')) return 0;
  if (std::string_view("89abAB").contains(escape[3])) return 'h';
  return std::string_view("cdefCDEF").contains(escape[3]) ? 'l' : '\0';
}

// The first half, at `from` or behind it, that stands alone; npos: there is none.
std::size_t next_alone(std::string_view text, std::size_t from) {
  for (std::size_t at = text.find("\\u", from); at != std::string_view::npos; at = text.find("\\u", at)) {
    std::size_t begin = at;  // of the backslashes: of two, the second one is escaped
    while (begin > 0 && text[begin - 1] == '\\') --begin;
    const char half = (at - begin) % 2 == 0 ? half_at(text, at) : '\0';
    const bool pair = half == 'h' && half_at(text, at + 6) == 'l';
    if (half != 0 && !pair) return at;
    at += pair ? 12 : 2;
  }
  return std::string_view::npos;
}

std::size_t next_line_end(std::string_view text, char lead, std::size_t at) {
  for (at = text.find(lead, at); at != std::string_view::npos; at = text.find(lead, at + 1))
    if (!line_end_escape(text, at).empty()) return at;
  return std::string_view::npos;
}

constexpr std::string_view leads = "\xE2\xC2";  // the first bytes of line ends

}  // namespace

bool has_line_ends(std::string_view text) {
  return std::ranges::any_of(leads,
                             [text](char lead) { return next_line_end(text, lead, 0) != std::string_view::npos; });
}

void escape_line_ends(std::string& text) {
  if (!has_line_ends(text)) return;
  std::string out;
  out.reserve(text.size() + 64);
  std::size_t plain = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const std::string_view escape = leads.contains(text[at]) ? line_end_escape(text, at) : std::string_view();
    if (escape.empty()) continue;
    out.append(text, plain, at - plain).append(escape);
    at += text[at] == leads[0] ? 2 : 1;
    plain = at + 1;
  }
  text = std::move(out.append(text, plain));
}

void mend_surrogates(std::string& text) {
  for (std::size_t at = next_alone(text, 0); at != std::string::npos; at = next_alone(text, at + 6))
    text.replace(at, 6, "\\ufffd");
}

std::string_view as_sent(std::string_view text, std::string& held) {
  if (next_alone(text, 0) == std::string_view::npos) return store::as_utf8(text, held);
  held = text;
  mend_surrogates(held);
  if (store::invalid_utf8(held)) held = store::replace_invalid_utf8(held);
  return held;
}

}  // namespace sessiond::json
