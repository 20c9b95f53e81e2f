// Segments by name: <first seq, 20 digits>[-<n>].jsonl. The order of (first, n) is the order of the log.
#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/journal/index.hpp"
#include "store/problem.hpp"

namespace sessiond::journal {

inline constexpr std::size_t indexes_kept = 2;  // in memory: those of the newest segments

struct SegmentName {
  std::uint64_t first = 0;
  std::uint64_t turn = 0;  // 0: no suffix
  auto operator<=>(const SegmentName&) const = default;
};
std::string to_string(const SegmentName& name);
std::optional<SegmentName> parse_segment_name(std::string_view name);
// <segment>.torn.<time>: a batch that a kill cut short, of which nobody was told that it was stored.
bool is_torn_name(const std::filesystem::path& file);
Result<std::vector<SegmentName>> list_segments(const std::filesystem::path& dir);  // in order

// What is known of a segment: seqs [name.first, next) in bytes [0, end).
struct Segment {
  SegmentName name{};
  std::filesystem::path path{};
  std::uint64_t next = 0;
  std::uint64_t end = 0;
  std::uint64_t serial = 0;            // given by the catalog, rises along the log
  std::optional<SparseIndex> index{};  // the live one and the newest sealed ones; others are read from their .idx
};

}  // namespace sessiond::journal
