// Reports faults with their positions: JSON pointers (RFC 6901), and the 422 that carries every fault of a body.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "store/problem.hpp"

namespace sessiond::policy {

// Returns the pointer to the member `name` of what `parent` points to. For an element, `name` is its index in decimal.
std::string pointer_to(std::string_view parent, std::string_view name);

// Makes a validation_failed with all faults; its `detail` has the first and the number of the others. `faults` is not
// empty.
std::unexpected<Problem> fail_with(std::vector<Fault> faults);

}  // namespace sessiond::policy
