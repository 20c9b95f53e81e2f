// Entries of sessions take no keys and tokens (policy.secretScan): what a request sets is looked through before it is
// decided about. What stands in an entry already, and what other programs write there, is theirs; messages are what
// people say.
#pragma once

#include <string_view>

#include "daemon/api/api.hpp"
#include "daemon/http/message.hpp"
#include "store/problem.hpp"

namespace sessiond {

// `value` is JSON (or "": nothing), `session` what the log calls it. reject: validation_failed with the pointer of
// every one; warn: a line in the log for each.
Result<void> check_secrets(const Api& api, const Request& request, std::string_view session, std::string_view value,
                           std::string_view pointer = "");

}  // namespace sessiond
