// A table for a terminal: a line of titles, then a line a row.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sessiond::cli {

struct Column {
  std::string_view title;
  bool to_the_right = false;
  bool may_shrink = false;  // cells are cut in the middle where the terminal is too narrow, in the last columns first
};
using Row = std::vector<std::string>;  // a cell for each column: UTF-8, not trusted

// Returns the table with "\n" after each line. `width`: of the terminal in characters; nothing: cells are not cut.
// Control characters in cells are shown as "?", so that no text of a chat can change the terminal.
std::string table(const std::vector<Column>& columns, std::vector<Row> rows, std::optional<std::size_t> width);

std::string without_controls(std::string_view text);

// Returns the width of the terminal on stdout: COLUMNS, else what the terminal says. Nothing: stdout is no terminal.
std::optional<std::size_t> terminal_width();

}  // namespace sessiond::cli
