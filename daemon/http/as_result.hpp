// What an asynchronous call is awaited with where its error is looked at: `auto [error, bytes] = co_await read(…,
// as_result);`
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace sessiond {

inline constexpr auto as_result = boost::asio::as_tuple(boost::asio::use_awaitable);

}  // namespace sessiond
