#include "daemon/cli/table.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "store/number.hpp"

namespace sessiond::cli {
namespace {

constexpr std::size_t least_width = 12;  // of a column that was shrunk
constexpr std::string_view gap = "  ";
constexpr std::string_view cut_mark = "…";

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }

std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, begins_character));
}

// Returns the first characters of a text.
std::string_view beginning(std::string_view text, std::size_t count) {
  std::size_t at = 0;
  while (at < text.size() && (count > 0 || !begins_character(text[at])))
    if (begins_character(text[at++])) --count;
  return text.substr(0, at);
}

std::string cut_to(std::string_view text, std::size_t width) {
  const std::size_t all = characters(text);
  if (all <= width) return std::string(text);
  const std::size_t behind = (width - 1) / 2;
  const std::string_view head = beginning(text, width - 1 - behind);
  const std::string_view tail = text.substr(beginning(text, all - behind).size());
  return std::string(head).append(cut_mark).append(tail);
}

}  // namespace

std::string without_controls(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const bool c1 = byte == 0xC2 && at + 1 < text.size() && static_cast<unsigned char>(text[at + 1]) < 0xA0;
    if (c1) ++at;
    out += byte < 0x20 || byte == 0x7F || c1 ? '?' : text[at];
  }
  return out;
}

std::string table(const std::vector<Column>& columns, std::vector<Row> rows, std::optional<std::size_t> width) {
  std::vector<std::size_t> widths;
  widths.reserve(columns.size());
  for (const Column& column : columns) widths.push_back(characters(column.title));
  for (Row& row : rows) {
    for (std::size_t at = 0; at < columns.size(); ++at) {
      row[at] = without_controls(row[at]);
      widths[at] = std::max(widths[at], characters(row[at]));
    }
  }
  std::size_t all = gap.size() * (columns.size() - 1);
  for (const std::size_t each : widths) all += each;
  for (std::size_t at = columns.size();
       width && at-- > 0 && all > *width;) {  // the last first: the first names the row
    if (!columns[at].may_shrink || widths[at] <= least_width) continue;
    const std::size_t cut = std::min(widths[at] - least_width, all - *width);
    widths[at] -= cut;
    all -= cut;
  }
  std::string out;
  const auto add_line = [&](const auto& cell_of) {
    for (std::size_t at = 0; at < columns.size(); ++at) {
      const std::string cell = cut_to(cell_of(at), widths[at]);
      const std::string padding(widths[at] - std::min(widths[at], characters(cell)), ' ');
      out.append(at == 0 ? "" : gap).append(columns[at].to_the_right ? padding + cell : cell + padding);
    }
    out.erase(out.find_last_not_of(' ') + 1);
    out += '\n';
  };
  add_line([&](std::size_t at) { return columns[at].title; });
  for (const Row& row : rows) add_line([&row](std::size_t at) { return std::string_view(row[at]); });
  return out;
}

std::optional<std::size_t> terminal_width() {
  if (::isatty(STDOUT_FILENO) == 0) return {};
  if (const char* columns = std::getenv("COLUMNS"))
    if (const auto width = store::parse_number<std::size_t>(columns); width && *width > 0) return width;
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

}  // namespace sessiond::cli
