// Finds keys that contradict each other although each is valid alone.
#pragma once

#include <vector>

#include "config/config.hpp"

namespace sessiond::config {

// Adds a fault for each contradiction. Skips a contradiction if one of its keys has a fault already, since that key's
// value is not the intended one.
void find_contradictions(const Config& config, std::vector<ConfigFault>& faults);

}  // namespace sessiond::config
