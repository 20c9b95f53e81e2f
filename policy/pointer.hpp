// Faults and where they are: RFC 6901 JSON pointers, and the 422 that carries every fault of a body.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "store/problem.hpp"

namespace sessiond {

// The pointer to a member (or, as decimal text, an element) of what `parent` points to.
std::string pointer_to(std::string_view parent, std::string_view name);

// validation_failed with all faults; `detail` tells the first and how many there are. `faults` must not be empty.
std::unexpected<Problem> fail_with(std::vector<Fault> faults);

}  // namespace sessiond
