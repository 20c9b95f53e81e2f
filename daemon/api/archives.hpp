// Archived transcripts as the API names them.
#pragma once

#include <map>
#include <string>

#include "daemon/api/handler.hpp"

namespace sessiond {

// The newest archive of each transcript that a session id had, by topic ("": its own). session_not_found when there is
// none. For who sees the whole agent.
asio::awaitable<Result<std::map<std::string, std::string>>> archives_of(Api& api, std::string agent, std::string id);

}  // namespace sessiond
