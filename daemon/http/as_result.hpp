// Makes an asynchronous call return its error instead of throwing it:
// `auto [error, bytes] = co_await socket.async_read_some(buffer, as_result);`
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace sessiond::http {

inline constexpr auto as_result = boost::asio::as_tuple(boost::asio::use_awaitable);

}  // namespace sessiond::http
