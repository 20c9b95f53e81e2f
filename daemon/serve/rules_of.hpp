// The configured rules as decisions take them.
#pragma once

#include "config/config.hpp"
#include "daemon/decide/rules.hpp"
#include "store/problem.hpp"

namespace sessiond {

// validation_failed with every fault of sendPolicy, pointers below /sendPolicy.
Result<Rules> rules_of(const Config& config);

}  // namespace sessiond
