// Suggests the name that was probably meant by an unknown one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sessiond::config {

// Returns ", did you mean /limits/bodyBytes?" when a key of the same group has a similar name, or another group has a
// key of this name; else "".
std::string suggestion(std::string_view unknown_pointer);

// Returns how many characters must be changed, added or removed to make one text of the other (Levenshtein). Both texts
// are short.
std::size_t distance(std::string_view a, std::string_view b);

// Returns the known word that `word` may have been meant to be; "" if none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

}  // namespace sessiond::config
