// Decides what has to be appended to a transcript so that every line is in it exactly once (the rule:
// transcript_writer.hpp). Reads the file only if a line is not simply next.
//
// A line that comes after foreign entries instead of the entry that it was to follow gets the last entry's id as its
// parentId. A line in the file is ours if it has our id and our content, apart from parentId and spelling.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/problem.hpp"
#include "transcripts/known_ends.hpp"

namespace sessiond::transcripts {

struct PlacedLine {
  std::uint64_t offset = 0;            // where it should begin
  std::string_view line;               // with its '\n'
  std::string_view id;                 // empty: a header
  std::optional<std::uint64_t> seq{};  // of the entry, as clients were told
};

struct Placing {
  std::string append;                        // to be written at the end of the file
  std::vector<PlacedLine> holes{};           // to be written at their offsets, where the file has NULs (without ids)
  bool displaced = false;                    // a line is, or will be, at another offset than it should
  std::optional<std::uint64_t> first_seq{};  // the lowest seq of the lines in `append`
  std::optional<std::uint64_t> renumbered_from{};  // the lowest seq of the lines that come later than clients were told
  // Ids of lines in `append` that a foreign line has, too. Both lines stay.
  std::vector<std::string> doubled{};
  std::vector<ByteRange> lines{};  // where the lines are or will be
};

// Tells whether bytes in a file are the beginning of `line`, with NULs instead of some of them. No line contains a NUL:
// file systems show NULs for pages that were never written.
bool ours_or_hole(std::string_view standing, std::string_view line);

// Lines that are not at their offset are searched by id: in the whole file, or from the lowest offset on (`whole`
// false). Blocks.
Result<Placing> place_lines(int fd, std::uint64_t size, std::span<const PlacedLine> lines, bool whole,
                            std::string_view path);

}  // namespace sessiond::transcripts
