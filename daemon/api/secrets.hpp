// Keeps keys and tokens out of session entries (policy.secretScan). Scans what a request sets, before the command is
// decided. Values that an entry has already, values that foreign programs write, and messages are not scanned.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <string_view>

#include "daemon/api/api.hpp"
#include "daemon/http/message.hpp"
#include "store/problem.hpp"

namespace sessiond::api {

// Scans `value`, which is JSON or "". With secretScan "reject": validation_failed with the pointer of each secret; with
// "warn": a log line for each, which names `session`. `pointer` is where `value` stands in the body.
// A long value is scanned on a disk thread; the arguments outlive the wait.
boost::asio::awaitable<Result<void>> check_secrets(const Api& api, const http::Request& request,
                                                   std::string_view session, std::string_view value,
                                                   std::string_view pointer = "");

}  // namespace sessiond::api
