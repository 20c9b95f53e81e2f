#include "daemon/http/message.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>

#include "store/limits.hpp"
#include "store/names.hpp"
#include "store/number.hpp"

namespace sessiond::http {

JsonChecked check_json(std::string_view body, std::size_t max_depth) {
  JsonChecked checked{.max_depth = max_depth};
  constexpr std::size_t usual = 12;
  const bool is_long = body.size() > limits::checked_here;
  if (!is_long) checked.members.reserve(usual);
  checked.result = json::check(body, {.max_depth = max_depth,
                                      .unique_names = true,
                                      .utf8 = true,
                                      .line_ends = &checked.line_ends,
                                      .members = is_long ? nullptr : &checked.members});
  return checked;
}

std::string_view Request::header(std::string_view lower_name) const {
  for (const auto& [name, value] : headers) {
    if (name == lower_name) return value;
  }
  return {};
}

const std::string* Request::query_value(std::string_view name) const {
  for (const auto& [key, value] : std::views::reverse(query)) {
    if (key == name) return &value;
  }
  return nullptr;
}

Result<std::optional<std::int64_t>> query_int(const Request& request, std::string_view name, std::int64_t least,
                                              std::int64_t most) {
  const std::string* text = request.query_value(name);
  if (text == nullptr) return std::nullopt;
  const auto number = store::parse_number<std::int64_t>(*text);
  if (number && *number >= least && *number <= most) return number;
  return fail(Code::bad_request, fmt::format("{} must be a number from {} to {}", name, least, most));
}

Result<std::vector<std::string>> names_in(std::string_view text, std::string_view parameter) {
  if (text.size() > limits::listed_bytes || std::ranges::count(text, ',') >= std::ptrdiff_t{limits::listed_names})
    return fail(Code::bad_request, fmt::format("{} takes at most {} names and {} bytes", parameter,
                                               limits::listed_names, limits::listed_bytes));
  std::vector<std::string> names;
  for (const auto name : std::views::split(text, ',')) names.emplace_back(store::trim(std::string_view(name)));
  return names;
}

}  // namespace sessiond::http
