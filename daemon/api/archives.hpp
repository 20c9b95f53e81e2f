// The archived transcripts of a session id.
#pragma once

#include <map>
#include <string>

#include "daemon/api/handler.hpp"

namespace sessiond::api {

// Returns the file name of the newest archive of each transcript that a session id had, by topic; the topic "" is the
// session itself. Errors: session_not_found when there is none. Does not look at the token: the caller has checked that
// the token may see these archives (visible_or_archived).
asio::awaitable<Result<std::map<std::string, std::string>>> archives_of(Api& api, std::string agent, std::string id);

}  // namespace sessiond::api
