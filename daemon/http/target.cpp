#include "daemon/http/target.hpp"

#include <algorithm>
#include <ranges>

#include "store/number.hpp"
#include "store/try.hpp"

namespace sessiond::http {

Result<std::string> percent_decode(std::string_view text) {
  if (!text.contains('%')) return std::string(text);
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const auto byte = i + 2 < text.size() ? store::parse_number<std::uint8_t>(text.substr(i + 1, 2), 16) : std::nullopt;
    if (!byte) return fail(Code::bad_request, "the target has a % that is not followed by two hex digits");
    if (*byte == 0) return fail(Code::bad_request, "the target holds a NUL byte (%00)");
    out += static_cast<char>(*byte);
    i += 2;
  }
  return out;
}

Result<std::vector<std::string>> split_path(std::string_view raw_path) {
  std::vector<std::string> segments;
  if (raw_path.starts_with('/')) raw_path.remove_prefix(1);
  for (std::size_t begin = 0; begin <= raw_path.size();) {
    const std::size_t end = std::min(raw_path.find('/', begin), raw_path.size());
    TRY(auto segment, percent_decode(raw_path.substr(begin, end - begin)));
    if (segment == "." || segment == "..") return fail(Code::bad_request, "the path has a dot segment");
    segments.push_back(std::move(segment));
    begin = end + 1;
  }
  return segments;
}

Result<std::vector<std::pair<std::string, std::string>>> split_query(std::string_view raw_query) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const auto part : std::views::split(raw_query, '&')) {
    const std::string_view raw(part);
    if (raw.empty()) continue;
    const std::size_t equals = std::min(raw.find('='), raw.size());
    TRY(auto name, percent_decode(raw.substr(0, equals)));
    TRY(auto value, percent_decode(equals < raw.size() ? raw.substr(equals + 1) : std::string_view{}));
    pairs.emplace_back(std::move(name), std::move(value));
  }
  return pairs;
}

}  // namespace sessiond::http
