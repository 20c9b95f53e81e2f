// Takes the head of a request apart (RFC 9112 §3 and §5). Request.headers then point into the request's own copy of the
// head, so that a field costs no memory of its own. Only the syntax is checked; strict.hpp decides what it means.
#pragma once

#include <string_view>

#include "daemon/http/message.hpp"
#include "store/problem.hpp"

namespace sessiond::http {

struct RequestLine {
  std::string_view target;  // not empty; any bytes. Points into request.head
  int minor = 1;            // of HTTP/1.1. A higher one is read as 1, the highest known (RFC 9110 §2.5)
};

// `head` ends with its empty line, and none of its lines begins with white space: HeaderScanner has seen to both. Sets
// request.method, head and headers. bad_request when a line is malformed.
Result<RequestLine> parse_head(std::string_view head, Request& request);

}  // namespace sessiond::http
