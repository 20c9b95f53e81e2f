// Cross-Origin Resource Sharing (WHATWG Fetch): pages of the allowed origins may send requests and read replies.
// Cookies are not allowed across origins: only the daemon's own dashboard logs in with one.
#pragma once

#include <string>
#include <vector>

#include "daemon/http/message.hpp"

namespace sessiond::http {

// Adds the fields that a browser asks for, also to the reply of a preflight.
void add_cors(const Request& request, const std::vector<std::string>& allowed_origins, Response& response);

}  // namespace sessiond::http
