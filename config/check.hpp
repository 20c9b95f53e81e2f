// Keys that contradict each other although each is valid alone.
#pragma once

#include <vector>

#include "config/config.hpp"

namespace sessiond::config {

// Adds a fault for each contradiction. Where a key that takes part has a fault already, nothing is added: its value is
// not what was meant.
void find_contradictions(const Config& config, std::vector<ConfigFault>& faults);

}  // namespace sessiond::config
