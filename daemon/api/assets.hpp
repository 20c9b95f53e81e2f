// Files of the repository that the daemon serves, compiled in (CMakeLists.txt: assets.cpp.in).
#pragma once

#include <string_view>

namespace sessiond::assets {

extern const std::string_view dashboard;  // web/dashboard.html
extern const std::string_view openapi;    // web/openapi.json

}  // namespace sessiond::assets
