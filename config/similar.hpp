// Suggests the key that was probably meant by an unknown one.
#pragma once

#include <string>
#include <string_view>

namespace sessiond::config {

// Returns ", did you mean /limits/bodyBytes?" when a key of the same group has a similar name, or another group has a
// key of this name; else "".
std::string suggestion(std::string_view unknown_pointer);

}  // namespace sessiond::config
