// tokens.json while the daemon runs: what others change in it counts within a second, as memory counts for requests;
// when tokens were last used is written into it once a minute.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "daemon/api/api.hpp"

namespace sessiond {

// Runs until the daemon's loop ends.
boost::asio::awaitable<void> keep_tokens(Api& api);

}  // namespace sessiond
