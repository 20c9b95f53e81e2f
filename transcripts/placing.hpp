// Decides what has to be appended to a transcript so that every line stands in it, each once (appender.hpp has the
// rule). Reads the file only where a line is not simply next.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "store/problem.hpp"

namespace sessiond {

struct PlacedLine {
  std::uint64_t offset = 0;  // where it was to begin
  std::string_view line;     // with its '\n'
  std::string_view id;       // empty: a header
};

struct Placing {
  std::string append;      // goes to the end of the file, as it was when looked at
  bool displaced = false;  // a line stands, or will stand, elsewhere than at its offset
};

// Lines that are not at their offset are looked for by id: in the whole file, or (`whole` false) from the lowest offset
// on.
Result<Placing> place_lines(int fd, std::uint64_t size, std::span<const PlacedLine> lines, bool whole,
                            std::string_view path);

}  // namespace sessiond
