// The names that people give to sessions. A name is text in any script. Its slug is the same name as it can stand in a
// file name, a path or a command line: "My Custom Session" has the slug "my-custom-session". No two sessions of an
// agent have one slug.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "store/problem.hpp"

namespace sessiond::policy {

inline constexpr std::size_t longest_slug = 100;  // bytes

// Returns the name as a slug: ASCII in lower case, "-" for each run of other characters than a-z 0-9 _ . - and for two
// or more dots, without "-" at either end, cut to 100 bytes. Empty when nothing remains.
std::string sanitize_name(std::string_view name);

// The same for a name that is stored so, or that becomes a session id. validation_failed at `pointer` when nothing
// remains, reserved_name when it is one of the names that no session may have ("index", "con", …).
Result<std::string> sanitized_name(std::string_view name, const std::string& pointer);
// Returns the session id that is made from a sanitised name: characters before its first letter or digit go, too.
// validation_failed at `pointer` when nothing remains.
Result<std::string> id_of_name(std::string_view sanitized, const std::string& pointer);

// Returns the first of base, base-2, base-3, … that is not taken, within 100 bytes. Where some numbers in between are
// free it may return a later one. Asks a number of times that grows with the logarithm of the sessions with that name.
std::string free_slug(std::string_view base, const std::function<bool(const std::string&)>& taken);
// Returns base-suffix, within 100 bytes.
std::string with_suffix(std::string_view base, std::string_view suffix);

}  // namespace sessiond::policy
