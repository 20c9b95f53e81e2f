// Handles that clients write (policy/media.hpp). Each request with a body is looked at before its handler, so that no
// way in is forgotten: a name of a blob in a session's content lets whoever sees the session read the blob.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "daemon/api/secret_check.hpp"

namespace sessiond::api {

// Calls the handler. validation_failed, with pointers, when the body names a blob that no session names which the token
// sees.
boost::asio::awaitable<Result<http::Response>> with_checked_handles(Api& api, http::Request& request, Handle call);

}  // namespace sessiond::api
