// Keeps the tokens in memory and tokens.json in agreement while the daemon runs: a change of the file applies within a
// second, and the times at which tokens were last used are written into it once a minute.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "daemon/api/api.hpp"

namespace sessiond::serve {

// Never returns: it ends with the daemon's loop.
boost::asio::awaitable<void> keep_tokens(api::Api& api);

}  // namespace sessiond::serve
