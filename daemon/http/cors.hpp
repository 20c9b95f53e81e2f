// Cross-Origin Resource Sharing (WHATWG Fetch): pages of the allowed origins may read replies and may send what the API
// takes. Without cookies: who logs in by cookie is a page of our own origin.
#pragma once

#include <string>
#include <vector>

#include "daemon/http/message.hpp"

namespace sessiond {

// Adds what the browser wants to see, to the reply of a preflight too.
void add_cors(const Request& request, const std::vector<std::string>& allowed_origins, Response& response);

}  // namespace sessiond
