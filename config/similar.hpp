// What somebody may have meant by a key that does not exist.
#pragma once

#include <string>
#include <string_view>

namespace sessiond::config {

// ", did you mean /limits/bodyBytes?" for a misspelt neighbour or a key that belongs in another group, else "".
std::string suggestion(std::string_view unknown_pointer);

}  // namespace sessiond::config
