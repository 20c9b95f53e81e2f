// Stream tickets on the event routes. The router has authenticated the request by its `?ticket=`; these two steps make
// the handler honour the ticket's filters and remember that it was used.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <optional>
#include <string>

#include "daemon/api/api.hpp"

namespace sessiond::api {

// Returns the ticket and removes it from the query, so that it appears in no log or list. Adds the filters that the
// ticket is bound to. Errors: bad_request when the query has another value for one of those filters.
Result<std::optional<std::string>> take_ticket(Api& api, http::Request& request);

// Records that the ticket opened the stream that `response` begins, durably. If the disk fails, the stream is served
// all the same and the log says so: after a restart the ticket may then be unknown.
boost::asio::awaitable<void> remember_ticket(Api& api, std::string ticket, http::Response& response);

}  // namespace sessiond::api
