#include <doctest/doctest.h>

#include "daemon/http/message.hpp"
#include "store/json/raw_json.hpp"

using namespace sessiond;
using namespace sessiond::http;

namespace {

std::string header(const Response& response, std::string_view name) {
  for (const auto& [known, value] : response.headers) {
    if (known == name) return value;
  }
  return "";
}

Request request() {
  Request r;
  r.path = "/v1/a%22b";
  r.request_id = "id-1";
  return r;
}

}  // namespace

TEST_CASE("a problem becomes RFC 9457 JSON") {
  const Response r = to_response({.code = Code::session_not_found, .detail = "no \"x\""}, request());
  CHECK(r.status == 404);
  CHECK(r.content_type == "application/problem+json");
  CHECK(
      r.body ==
      R"({"type":"urn:sessiond:problem:session_not_found","title":"Session not found","status":404,"code":"session_not_found",)"
      R"("detail":"no \"x\"","instance":"/v1/a%22b","retryable":false,"requestId":"id-1"})");
  CHECK(r.headers.empty());
}

TEST_CASE("faults and further members") {
  Problem problem{.code = Code::validation_failed, .detail = "two"};
  problem.errors = {{"/a", "x"}, {"/b/0", "y"}};
  problem.members = {{"rule", "3"}, {"more", R"({"z":null})"}};
  const Response r = to_response(problem, request());
  CHECK(json::check(r.body));
  CHECK(*json::find(r.body, "errors") == R"([{"pointer":"/a","detail":"x"},{"pointer":"/b/0","detail":"y"}])");
  CHECK(*json::find(r.body, "rule") == "3");
  CHECK(*json::find(r.body, "more") == R"({"z":null})");
}

TEST_CASE("every code has a status, and says whether to try again") {
  for (int i = 0; i <= static_cast<int>(Code::storage_full); ++i) {
    const auto code = static_cast<Code>(i);
    CAPTURE(name(code));
    const Response r = to_response({.code = code, .detail = "d"}, request());
    CHECK(r.status >= 400);
    CHECK(json::check(r.body));
    CHECK(*json::int_at(r.body, "status") == r.status);
    const bool again =
        r.status == 408 || r.status == 429 || r.status == 503 || r.status == 507 || code == Code::idempotency_in_flight;
    CHECK(*json::as_bool(*json::find(r.body, "retryable")) == again);
    CHECK(header(r, "Retry-After").empty() == (!again || r.status == 408 || r.status == 507));
    CHECK(header(r, "WWW-Authenticate").empty() == (code != Code::unauthorized));
  }
}

TEST_CASE("headers a problem brings") {
  CHECK(header(to_response({.code = Code::too_many_requests, .detail = "", .retry_after_s = 30}, request()),
               "Retry-After") == "30");
  CHECK(header(to_response({.code = Code::precondition_failed, .detail = "", .etag = "r7"}, request()), "ETag") ==
        "\"r7\"");
  CHECK(header(to_response({.code = Code::unauthorized, .detail = ""}, request()), "WWW-Authenticate")
            .starts_with("Bearer"));
}
