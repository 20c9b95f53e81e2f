// Requests of the API that the daemon makes itself, in the name of whoever sent another request. They go through the
// router as if they had come from the network, so permissions, scope, limits, the search for keys, the audit log and
// the words of problems are those of the API. Two things were done for the outer request already and are not done
// again: counting it against limits.requestsPerSecond, and asking whether its token has room in limits.bytesPerToken.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/http/message.hpp"
#include "daemon/http/router.hpp"

namespace sessiond::api {

struct InnerRequest {
  std::string method = "GET";
  std::string path{};                                        // percent-encoded
  std::vector<std::pair<std::string, std::string>> query{};  // not encoded
  std::string body{};
  std::string idempotency_key{};

  void ask(std::string_view name, std::string value) { query.emplace_back(name, std::move(value)); }
};

// Encodes a value as one segment of a path.
std::string path_segment(std::string_view value);

// Answers as the network would be answered, with JSON or a problem. `router` and `outer` outlive the wait.
boost::asio::awaitable<http::Response> answer_inner(const http::Router& router, const http::Request& outer,
                                                    InnerRequest inner);

}  // namespace sessiond::api
