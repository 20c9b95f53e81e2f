#include "daemon/api/byte_range.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "store/names.hpp"
#include "store/number.hpp"

namespace sessiond::api {

std::string ByteRange::header(std::uint64_t size) const {
  return fmt::format("bytes {}-{}/{}", first, first + length - 1, size);
}

Result<std::optional<ByteRange>> byte_range(const http::Request& request, std::uint64_t size, std::string_view what) {
  std::string_view header = request.header("range");
  constexpr std::string_view unit = "bytes=";
  if (!store::starts_with_nocase(header, unit) || header.contains(',') || request.method != "GET" ||
      !request.header("if-range").empty())
    return std::nullopt;
  header.remove_prefix(unit.size());
  const std::size_t dash = header.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const std::string_view first_text = store::trim(header.substr(0, dash));
  const std::string_view last_text = store::trim(header.substr(dash + 1));
  for (const std::string_view text : {first_text, last_text})
    if (text.find_first_not_of("0123456789") != text.npos) return std::nullopt;
  const auto number = [](std::string_view text) -> std::optional<std::uint64_t> {
    if (text.empty()) return {};
    return store::parse_number<std::uint64_t>(text).value_or(UINT64_MAX);  // beyond the end of any file
  };
  const auto first = number(first_text);
  const auto last = number(last_text);
  const auto unsatisfiable = [size, what] {
    return std::unexpected(
        Problem{.code = Code::range_not_satisfiable, .detail = fmt::format("{} has {} bytes", what, size)});
  };
  if (!first && !last) return std::nullopt;
  if (!first) {  // the last n bytes
    if (*last == 0 || size == 0) return unsatisfiable();
    const std::uint64_t length = std::min(*last, size);
    return ByteRange{size - length, length};
  }
  if (last && *last < *first) return std::nullopt;
  if (*first >= size) return unsatisfiable();
  return ByteRange{*first, std::min(last.value_or(size - 1), size - 1) - *first + 1};
}

}  // namespace sessiond::api
