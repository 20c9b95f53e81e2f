// The configured rules, as decisions take them.
#pragma once

#include "config/config.hpp"
#include "daemon/decide/rules.hpp"
#include "store/problem.hpp"

namespace sessiond::serve {

// Errors: validation_failed with every fault of the send policy; pointers begin with /sendPolicy.
Result<decide::Rules> rules_of(const config::Config& config);

}  // namespace sessiond::serve
