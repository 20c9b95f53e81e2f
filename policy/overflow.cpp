#include "policy/overflow.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "store/utf8.hpp"

namespace sessiond::policy {
namespace {

constexpr std::size_t line_code_points = 140;
constexpr std::string_view head = "[Queue overflow] Dropped ", tail = " messages.", mark = "\n- ";

}  // namespace

std::string OverflowText::text() const {
  std::string out = fmt::format("{}{}{}", head, dropped, tail);
  for (const std::string& line : lines) out.append(mark).append(line);
  return out;
}

std::optional<OverflowText> OverflowText::read(std::string_view text) {
  if (!text.starts_with(head)) return {};
  OverflowText out;
  std::string_view rest = text.substr(0, text.find(mark));
  rest.remove_prefix(head.size());
  const auto number = std::from_chars(rest.data(), rest.data() + rest.size(), out.dropped);
  if (number.ec != std::errc() || std::string_view(number.ptr, rest.data() + rest.size()) != tail) return {};
  for (std::size_t at = text.find(mark); at != std::string_view::npos;) {
    const std::size_t begin = at + mark.size();
    at = text.find(mark, begin);
    out.lines.emplace_back(text.substr(begin, at == std::string_view::npos ? at : at - begin));
  }
  return out;
}

std::string overflow_line(std::string_view text) {
  if (text.size() > line_code_points) {
    std::size_t end = 0;
    for (std::size_t taken = 0; end < text.size() && taken < line_code_points; ++taken)
      end += std::max<std::size_t>(store::utf8_sequence(text, end), 1);
    text = text.substr(0, end);
  }
  std::string line(text);
  std::ranges::replace_if(line, [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return line;
}

}  // namespace sessiond::policy
