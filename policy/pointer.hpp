// JSON pointers (RFC 6901), which say where a fault is.
#pragma once

#include <string>
#include <string_view>

namespace sessiond::policy {

// Returns the pointer to the member `name` of what `parent` points to. For an element, `name` is its index in decimal.
std::string pointer_to(std::string_view parent, std::string_view name);

}  // namespace sessiond::policy
