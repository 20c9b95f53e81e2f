#include "store/journal/segment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <system_error>

#include "store/number.hpp"

namespace sessiond::journal {
namespace {

constexpr std::size_t digits = 20;
constexpr std::string_view suffix = ".jsonl";

std::optional<std::uint64_t> number(std::string_view text) { return store::parse_number<std::uint64_t>(text); }

}  // namespace

std::string to_string(const SegmentName& name) {
  return name.turn == 0 ? fmt::format("{:020}{}", name.first, suffix)
                        : fmt::format("{:020}-{}{}", name.first, name.turn, suffix);
}

std::optional<SegmentName> parse_segment_name(std::string_view name) {
  if (!name.ends_with(suffix) || name.size() < digits + suffix.size()) return std::nullopt;
  const auto first = number(name.substr(0, digits));
  std::string_view rest = name.substr(digits, name.size() - digits - suffix.size());
  if (!first) return std::nullopt;
  SegmentName segment{.first = *first, .turn = 0};
  if (!rest.empty()) {
    const auto turn = rest.starts_with('-') ? number(rest.substr(1)) : std::nullopt;
    if (!turn) return std::nullopt;
    segment.turn = *turn;
  }
  if (to_string(segment) != name) return std::nullopt;
  return segment;
}

bool is_torn_name(const std::filesystem::path& file) {
  const std::string name = file.filename().native();
  const std::size_t torn = name.find(".torn.");
  return torn != std::string::npos && parse_segment_name(std::string_view(name).substr(0, torn));
}

Result<std::vector<SegmentName>> list_segments(const std::filesystem::path& dir) {
  std::vector<SegmentName> names;
  std::error_code error;
  for (std::filesystem::directory_iterator it(dir, error), end; !error && it != end; it.increment(error))
    if (const auto name = parse_segment_name(it->path().filename().native())) names.push_back(*name);
  if (error) return std::unexpected(io_problem("list", dir.native(), error.value()));
  std::ranges::sort(names);
  return names;
}

std::vector<SegmentName> take_overridden(std::vector<SegmentName>& names) {
  std::vector<SegmentName> overridden;
  std::uint64_t until = std::numeric_limits<std::uint64_t>::max();
  for (auto at = names.end(); at != names.begin();) {
    --at;
    if (at->first < until) {
      until = at->first;
    } else {
      overridden.push_back(*at);
      at = names.erase(at);
    }
  }
  return overridden;
}

void remove_files(const std::filesystem::path& segment) {
  std::error_code ignored;
  std::filesystem::remove(segment, ignored);
  std::filesystem::remove(index_path(segment), ignored);
}

}  // namespace sessiond::journal
