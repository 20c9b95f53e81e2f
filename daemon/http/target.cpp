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

Result<std::span<const std::string_view>> PathSegments::split(std::string_view raw_path) {
  segments_.clear();
  decoded_.clear();
  if (raw_path.starts_with('/')) raw_path.remove_prefix(1);
  const bool escapes = raw_path.contains('%');
  for (std::size_t begin = 0; begin <= raw_path.size();) {
    const std::size_t end = std::min(raw_path.find('/', begin), raw_path.size());
    std::string_view segment = raw_path.substr(begin, end - begin);
    if (escapes && segment.contains('%')) {
      TRY(auto decoded, percent_decode(segment));
      segment = decoded_.emplace_back(std::move(decoded));
    }
    if (segment == "." || segment == "..") return fail(Code::bad_request, "the path has a dot segment");
    segments_.push_back(segment);
    begin = end + 1;
  }
  return std::span<const std::string_view>(segments_.data(), segments_.size());
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
