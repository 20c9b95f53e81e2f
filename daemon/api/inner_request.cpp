#include "daemon/api/inner_request.hpp"

#include <boost/url/encode.hpp>
#include <boost/url/rfc/unreserved_chars.hpp>

#include "store/json/raw_json.hpp"

namespace sessiond::api {
namespace {

// Sets the headers. Their names and values point into `head`.
void set_headers(http::Request& request, const std::vector<std::pair<std::string_view, std::string_view>>& headers) {
  for (const auto& [name, value] : headers) {
    request.head.insert(request.head.end(), name.begin(), name.end());
    request.head.insert(request.head.end(), value.begin(), value.end());
  }
  const char* at = request.head.data();
  for (const auto& [name, value] : headers) {
    const std::string_view own_name(at, name.size());
    const std::string_view own_value(at + name.size(), value.size());
    request.headers.emplace_back(own_name, own_value);
    at = own_value.end();
  }
}

}  // namespace

std::string path_segment(std::string_view value) {
  return boost::urls::encode(value, boost::urls::unreserved_chars + ':');
}

boost::asio::awaitable<http::Response> answer_inner(const http::Router& router, const http::Request& outer,
                                                    InnerRequest inner) {
  http::Request request;
  request.method = std::move(inner.method);
  request.path = std::move(inner.path);
  request.query = std::move(inner.query);
  request.body = std::move(inner.body);
  std::vector<std::pair<std::string_view, std::string_view>> headers{{"authorization", outer.header("authorization")}};
  if (!inner.idempotency_key.empty()) headers.emplace_back("idempotency-key", inner.idempotency_key);
  set_headers(request, headers);
  request.request_id = outer.request_id;
  request.peer = outer.peer;
  request.secure = outer.secure;
  request.counted = true;
  request.client_gone = outer.client_gone;
  http::Response response = co_await router.handle(request);
  // As the connection does with a reply.
  if (!response.verbatim) json::mend_surrogates(response.body);
  co_return response;
}

}  // namespace sessiond::api
