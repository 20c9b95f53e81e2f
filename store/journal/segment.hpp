// A segment is one file of the journal. Its name is <first seq, 20 digits>[-<n>].jsonl, and the order of (first, n) is
// the order of the log. -<n> is of a segment that overrides an older one with the same first seq.
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

inline constexpr std::size_t indexes_kept = 2;  // in memory, of the newest segments

struct SegmentName {
  std::uint64_t first = 0;
  std::uint64_t turn = 0;  // 0: no suffix
  auto operator<=>(const SegmentName&) const = default;
};
std::string to_string(const SegmentName& name);
std::optional<SegmentName> parse_segment_name(std::string_view name);
// Whether a file is <segment>.torn.<time>: a batch that a kill cut short, whose outcome was never told.
bool is_torn_name(const std::filesystem::path& file);
Result<std::vector<SegmentName>> list_segments(const std::filesystem::path& dir);  // in order
// Takes the segments that a later one overrides as a whole out of the list. They have only batches that were told as
// not stored.
std::vector<SegmentName> take_overridden(std::vector<SegmentName>& names);
// Removes an overridden segment and its index. If a file stays, the next opening of the journal removes it.
void remove_files(const std::filesystem::path& segment);

// Seqs [name.first, next) in bytes [0, end) of a file.
struct Segment {
  SegmentName name{};
  std::filesystem::path path{};
  std::uint64_t next = 0;
  std::uint64_t end = 0;
  std::uint64_t serial = 0;            // assigned by the catalog; rises along the log
  std::optional<SparseIndex> index{};  // of the newest segments; others have theirs in .idx
};

}  // namespace sessiond::journal
