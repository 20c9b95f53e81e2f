#include "formats/json_lines.hpp"

#include "store/json/raw_json.hpp"
#include "store/names.hpp"

namespace sessiond::formats {
namespace {

constexpr std::string_view utf8_mark = "\xEF\xBB\xBF";
constexpr std::string_view utf16_little = "\xFF\xFE";
constexpr std::string_view utf16_big = "\xFE\xFF";
constexpr std::size_t most_objects = 1000;

// Returns whether an object may begin behind another one: most lines need no second parsing.
bool may_hold_several(std::string_view line) {
  for (std::size_t at = line.find('{', 1); at != std::string_view::npos; at = line.find('{', at + 1)) {
    std::size_t before = at;
    while (before > 0 && json::is_space(line[before - 1])) --before;
    if (before > 0 && line[before - 1] == '}') return true;
  }
  return false;
}

}  // namespace

std::string_view without_byte_order_mark(std::string_view text) {
  if (text.starts_with(utf8_mark)) text.remove_prefix(utf8_mark.size());
  return text;
}

bool is_utf16(std::string_view text) { return text.starts_with(utf16_little) || text.starts_with(utf16_big); }

std::vector<std::string_view> objects_on(std::string_view line) {
  if (!may_hold_several(line)) return {line};
  constexpr json::CheckOptions options{.max_depth = json::foreign_depth};
  std::vector<std::string_view> objects;
  for (std::string_view rest = store::trim(line); !rest.empty();) {
    const auto checked = json::check(rest, options);
    const std::string_view object = store::trim(rest.substr(0, checked ? rest.size() : checked.error().offset));
    // The fault of a rest that holds several values is where the second one begins.
    const bool is_object = object.starts_with('{') && (checked || json::check(object, options));
    if (!is_object || objects.size() == most_objects) return {line};
    objects.push_back(object);
    rest.remove_prefix(checked ? rest.size() : checked.error().offset);
  }
  return objects.size() > 1 ? objects : std::vector{line};
}

}  // namespace sessiond::formats
