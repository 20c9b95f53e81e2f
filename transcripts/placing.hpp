// Decides what has to be appended to a transcript so that every line stands in it, each once (transcript_writer.hpp has
// the rule). Reads the file only where a line is not simply next. A line that follows another program's instead of the
// entry it was to follow gets that one as parentId (FORMATS §4: the real last entry's id). A line in the file is ours
// when it has our id and says what ours says, whatever its parentId and its spelling; the header is no entry.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/problem.hpp"
#include "transcripts/known_ends.hpp"

namespace sessiond {

struct PlacedLine {
  std::uint64_t offset = 0;            // where it was to begin
  std::string_view line;               // with its '\n'
  std::string_view id;                 // empty: a header
  std::optional<std::uint64_t> seq{};  // the place among the entries that was told
};

struct Placing {
  std::string append;                              // goes to the end of the file, as it was when looked at
  std::vector<PlacedLine> holes{};                 // are NULs in the file, in part or whole: go there (no ids)
  bool displaced = false;                          // a line stands, or will stand, elsewhere than at its offset
  std::optional<std::uint64_t> first_seq{};        // the least that was told of the lines in `append`
  std::optional<std::uint64_t> renumbered_from{};  // of those that come further behind than was told
  // Ids of lines in `append` that another program's line bears too: both stand.
  std::vector<std::string> doubled{};
  std::vector<ByteRange> lines{};  // where the lines stand or will stand
};

// Where a line is to stand: is there nothing but the line, its beginning, and NULs in the place of some of it? No line
// has a NUL in it; they are what a file system shows for pages that were never written.
bool ours_or_hole(std::string_view standing, std::string_view line);

// Lines that are not at their offset are looked for by id: in the whole file, or (`whole` false) from the lowest offset
// on.
Result<Placing> place_lines(int fd, std::uint64_t size, std::span<const PlacedLine> lines, bool whole,
                            std::string_view path);

}  // namespace sessiond
