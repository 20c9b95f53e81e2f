#include "daemon/http/router.hpp"

#include <doctest/doctest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <stdexcept>

using namespace sessiond;
using namespace sessiond::http;
namespace asio = boost::asio;

namespace {

Handler says(std::string text) {
  return [text = std::move(text)](Request& request) -> asio::awaitable<Result<Response>> {
    Response response;
    response.content_type = "text/plain";
    response.body = text;
    for (const std::string& param : request.params) response.body += "|" + param;
    co_return response;
  };
}

Result<auth::Principal> by_header(const Request& request, auth::Permission) {
  if (request.header("authorization").empty()) return fail(Code::unauthorized, "no token");
  return auth::Principal{.id = "t", .role = *auth::role(request.header("authorization"))};
}

struct Fixture {
  Router router{by_header};
  Response ask(std::string method, std::string path, std::string as = "admin") const {
    Request request;
    request.method = std::move(method);
    request.path = std::move(path);
    request.request_id = "r";
    if (!as.empty()) request.headers.emplace_back("authorization", std::move(as));
    asio::io_context io;
    Response answer;
    asio::co_spawn(io, router.handle(request), [&](const std::exception_ptr& failure, Response response) {
      REQUIRE(!failure);
      answer = std::move(response);
    });
    io.run();
    return answer;
  }
};

std::string allow(const Response& response) {
  for (const auto& [name, value] : response.headers) {
    if (name == "Allow") return value;
  }
  return "";
}

}  // namespace

TEST_CASE_FIXTURE(Fixture, "paths to handlers") {
  router.add("GET", "/", auth::Permission::open, says("root"));
  router.add("GET", "/v1/s/{key}", auth::Permission::read, says("one"));
  router.add("GET", "/v1/s/special", auth::Permission::read, says("special"));
  router.add("POST", "/v1/s/{key}", auth::Permission::write, says("post"));
  router.add("GET", "/v1/s/{key}/m/{id}", auth::Permission::read, says("message"));
  router.add("GET", "/v1/s/special/n", auth::Permission::read, says("n"));
  CHECK(ask("GET", "/").body == "root");
  CHECK(ask("GET", "/v1/s/agent:main:x").body == "one|agent:main:x");
  CHECK(ask("GET", "/v1/s/a%2Fb%20c").body == "one|a/b c");
  CHECK(ask("GET", "/v1/s/special").body == "special");
  CHECK(ask("GET", "/v1/s/%73pecial").body == "special");
  CHECK(ask("POST", "/v1/s/special").body == "post|special");  // only the parameter has the method
  CHECK(ask("GET", "/v1/s/special/m/7").body ==
        "message|special|7");  // the literal's branch ends: back to the parameter
  CHECK(ask("GET", "/v1/s/special/n").body == "n");
  for (const char* path : {"/v1", "/v1/s", "/v1/s/", "/v1/s//m/1", "/v1/s/a/", "//", "/v1/s/a/m/1/x", "/V1/s/a"}) {
    CAPTURE(path);
    CHECK(ask("GET", path).status == 404);
  }
  CHECK(ask("GET", "/v1/s/..").status == 400);
  CHECK(ask("GET", "/v1/s/%00").status == 400);
  CHECK(ask("GET", "/" + std::string(8000, '/')).status == 404);
}

TEST_CASE_FIXTURE(Fixture, "404 is not 405, and 405 says what is allowed") {
  router.add("GET", "/a/{x}", auth::Permission::open, says("g"));
  router.add("DELETE", "/a/{x}", auth::Permission::open, says("d"));
  router.add("PUT", "/a/b", auth::Permission::open, says("p"));
  CHECK(ask("POST", "/a/c").status == 405);
  CHECK(allow(ask("POST", "/a/c")) == "DELETE, GET, HEAD, OPTIONS");
  CHECK(allow(ask("POST", "/a/b")) == "DELETE, GET, HEAD, OPTIONS, PUT");
  CHECK(ask("POST", "/b").status == 404);
  CHECK(ask("get", "/a/c").status == 405);
  const Response options = ask("OPTIONS", "/a/c", "");
  CHECK(options.status == 204);
  CHECK(allow(options) == "DELETE, GET, HEAD, OPTIONS");
  CHECK(ask("OPTIONS", "/b").status == 404);
  CHECK(allow(ask("OPTIONS", "*")) == "DELETE, GET, HEAD, OPTIONS, PUT");
}

TEST_CASE_FIXTURE(Fixture, "HEAD is GET's unless it has its own") {
  router.add("GET", "/a", auth::Permission::open, says("get"));
  router.add("GET", "/b/{x}", auth::Permission::open, says("get"));
  router.add("HEAD", "/b/{x}", auth::Permission::open, says("head"));
  router.add("POST", "/c", auth::Permission::open, says("post"));
  CHECK(ask("HEAD", "/a").body == "get");
  CHECK(ask("HEAD", "/b/1").body == "head|1");
  CHECK(ask("HEAD", "/c").status == 405);
}

TEST_CASE_FIXTURE(Fixture, "who may") {
  router.add("GET", "/open", auth::Permission::open, says("o"));
  router.add("GET", "/read", auth::Permission::read, says("r"));
  router.add("POST", "/tokens", auth::Permission::tokens, says("t"));
  CHECK(ask("GET", "/open", "").status == 200);
  const Response nobody = ask("GET", "/read", "");
  CHECK(nobody.status == 401);
  CHECK(nobody.headers.at(0).first == "WWW-Authenticate");
  CHECK(ask("GET", "/read", "viewer").status == 200);
  const Response forbidden = ask("POST", "/tokens", "viewer");
  CHECK(forbidden.status == 403);
  CHECK(forbidden.body.contains("\"permission\":\"tokens\""));
  CHECK(ask("GET", "/nothing", "").status == 404);
}

TEST_CASE_FIXTURE(Fixture, "what a handler throws ends at the router and tells the client nothing") {
  router.add("GET", "/throws", auth::Permission::open, [](Request&) -> asio::awaitable<Result<Response>> {
    throw std::runtime_error("secret");
    co_return Response{};
  });
  router.add("GET", "/int", auth::Permission::open, [](Request&) -> asio::awaitable<Result<Response>> {
    throw 7;
    co_return Response{};
  });
  CHECK(ask("GET", "/throws").status == 500);
  CHECK(!ask("GET", "/throws").body.contains("secret"));
  CHECK(ask("GET", "/int").status == 500);
}

TEST_CASE_FIXTURE(Fixture, "mistakes in routes are seen at start") {
  router.add("GET", "/a/{x}", auth::Permission::open, says(""));
  CHECK_THROWS_AS(router.add("GET", "/a/{y}", auth::Permission::open, says("")), std::invalid_argument);
  CHECK_THROWS_AS(router.add("GET", "a", auth::Permission::open, says("")), std::invalid_argument);
  CHECK_THROWS_AS(router.add("GET", "/{", auth::Permission::open, says("")), std::invalid_argument);
  CHECK_THROWS_AS(router.add("GET", "/{}", auth::Permission::open, says("")), std::invalid_argument);
  REQUIRE(router.routes().size() == 1);
  CHECK(router.routes()[0].pattern == "/a/{x}");
}
