// Tickets on the event routes: what a handler that serves one does with `?ticket=`, after the router has found it good.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <optional>
#include <string>

#include "daemon/api/api.hpp"

namespace sessiond {

// Takes the ticket out of the query, so that nothing behind it can tell it on, and puts in the filters it is bound to.
// bad_request when the query names one of those filters differently.
Result<std::optional<std::string>> take_ticket(Api& api, Request& request);

// The ticket has opened this stream. Durable before the answer; where the disk refuses, the stream is served all the
// same, and the log tells that it may not be found again after a restart.
boost::asio::awaitable<void> remember_ticket(Api& api, std::string ticket, Response& response);

}  // namespace sessiond
