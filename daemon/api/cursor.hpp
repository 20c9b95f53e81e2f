// Cursors of lists: a position as text, signed so that nobody makes one up.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "daemon/api/api.hpp"

namespace sessiond {

std::string seal_cursor(const Api& api, std::string_view text);
std::optional<std::string> open_cursor(const Api& api, std::string_view cursor);  // nothing: not one of ours

}  // namespace sessiond
