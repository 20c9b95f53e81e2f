// Writes JSON values as YAML, always in one form, so that the same value makes the same bytes: members in the order of
// their code points, two spaces for each level, one line for each scalar. A string stands plain only where neither YAML
// 1.1 nor 1.2 could take it for anything else, else as a JSON string.
//
//   {"tools":["read","2"],"id":"turn-1"}   id: turn-1
//                                          tools:
//                                            - read
//                                            - "2"
//
// Takes JSON that json::check accepted. Pure functions.
#pragma once

#include <string>
#include <string_view>

namespace sessiond::formats {

// Values below this level are written on one line ({"a": [1, 2]}): else indentation would grow a deep value tenfold.
inline constexpr std::size_t deepest_yaml_level = 12;

// Appends the members of an object, each on lines of its own; `level` is theirs. Of duplicates the last one counts.
void append_yaml_members(std::string& out, std::string_view object, std::size_t level);
// Appends the value as an element of a list whose dashes stand at `level`.
void append_yaml_element(std::string& out, std::string_view value, std::size_t level);

}  // namespace sessiond::formats
