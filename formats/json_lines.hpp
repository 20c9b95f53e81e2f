// JSON as other programs leave it in files: with a byte order mark before it, in UTF-16, or with several objects on one
// line because the program was killed before it wrote the line break. Pure functions.
#pragma once

#include <string_view>
#include <vector>

namespace sessiond::formats {

// Returns the text without the byte order mark of UTF-8.
std::string_view without_byte_order_mark(std::string_view text);

// Returns whether the text begins with the byte order mark of UTF-16, as what PowerShell's `>` writes does. It is not
// read; `utf16_why` says so.
bool is_utf16(std::string_view text);
inline constexpr std::string_view utf16_why =
    "is UTF-16, and JSON is read in UTF-8: `iconv -f UTF-16 -t UTF-8` converts it";

// Returns the JSON objects that stand on a line one after another. It is the line itself when it is one value, when a
// part of it does not parse, and when it has more than 1000 objects.
std::vector<std::string_view> objects_on(std::string_view line);

}  // namespace sessiond::formats
