// Every refusal of RFC 9112 that daemon/http/strict.hpp lists, and every shape of request, in one piece and byte by
// byte.
#include "daemon/http/request_reader.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>

using namespace sessiond;
using namespace sessiond::http;

namespace {

struct Outcome {
  std::vector<Request> requests;
  std::optional<Problem> problem;
  bool waiting = false;  // in the middle of a request
};

Outcome feed(std::string_view bytes, std::size_t step, const ReadLimits& limits = {}) {
  Outcome outcome;
  RequestReader reader(limits);
  Request request;
  while (true) {
    const Result<RequestReader::Progress> progress = reader.advance(request);
    if (!progress) {
      outcome.problem = progress.error();
      return outcome;
    }
    if (*progress == RequestReader::Progress::head) continue;
    if (*progress == RequestReader::Progress::complete) {
      outcome.requests.push_back(std::move(request));
      request = {};
      reader.next();
      continue;
    }
    if (bytes.empty()) {
      outcome.waiting = reader.started();
      return outcome;
    }
    const auto room = reader.prepare();
    REQUIRE(room.size() > 0);
    const std::size_t n = std::min({step, bytes.size(), room.size()});
    std::memcpy(room.data(), bytes.data(), n);
    reader.commit(n);
    bytes.remove_prefix(n);
  }
}

void refused(std::string_view bytes, Code code = Code::bad_request, const ReadLimits& limits = {}) {
  for (const std::size_t step : {std::size_t{1}, std::size_t{7}, bytes.size()}) {
    CAPTURE(bytes);
    CAPTURE(step);
    const Outcome outcome = feed(bytes, step, limits);
    CHECK(outcome.requests.empty());
    REQUIRE(outcome.problem);
    CHECK(outcome.problem->code == code);
  }
}

std::vector<Request> accepted(std::string_view bytes, std::size_t count, const ReadLimits& limits = {}) {
  std::vector<Request> first;
  for (const std::size_t step : {std::size_t{1}, std::size_t{3}, bytes.size()}) {
    CAPTURE(bytes);
    CAPTURE(step);
    Outcome outcome = feed(bytes, step, limits);
    CHECK_MESSAGE(!outcome.problem, (outcome.problem ? outcome.problem->detail : ""));
    CHECK(!outcome.waiting);
    REQUIRE(outcome.requests.size() == count);
    if (first.empty()) first = std::move(outcome.requests);
  }
  return first;
}

Request one(std::string_view bytes) { return std::move(accepted(bytes, 1)[0]); }

std::string with(std::string_view lines, std::string_view body = "") {
  return "POST /p HTTP/1.1\r\n" + std::string(lines) + "\r\n" + std::string(body);
}

}  // namespace

TEST_CASE("a plain request") {
  const std::vector<Request> all =
      accepted("GET /v1/a%2Fb?x=1&y=%20 HTTP/1.1\r\nHost: localhost:7433\r\nX-Two: a  b \t\r\nEMPTY:\r\n\r\n", 1);
  const Request& r = all[0];
  CHECK(r.method == "GET");
  CHECK(r.path == "/v1/a%2Fb");
  REQUIRE(r.query.size() == 2);
  CHECK(*r.query_value("y") == " ");
  CHECK(r.query_value("z") == nullptr);
  CHECK(r.header("x-two") == "a  b");
  CHECK(r.header("empty").empty());
  CHECK(r.body.empty());
}

TEST_CASE("bodies") {
  CHECK(accepted(with("Host: a\r\nContent-Length: 5\r\n", "hello"), 1)[0].body == "hello");
  CHECK(accepted(with("Host: a\r\nContent-Length: 0\r\n"), 1)[0].body.empty());
  CHECK(accepted(with("Host: a\r\n"), 1)[0].body.empty());
  CHECK(accepted(with("Host: a\r\nContent-Length: 00000000000000000000005\r\n", "hello"), 1)[0].body == "hello");
  const Request chunked =
      one(with("Host: a\r\nTransfer-Encoding: Chunked\r\n",
               "5\r\nhello\r\n00A;x;y=z;q=\"a\tb\\\"\"\r\n0123456789\r\n0\r\nX-Trailer: t\r\nHost: evil\r\n\r\n"));
  CHECK(chunked.body == "hello0123456789");
  CHECK(chunked.header("x-trailer").empty());
  CHECK(chunked.headers.size() == 2);
  CHECK(accepted(with("Host: a\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), 1)[0].body.empty());
  std::string big(200'000, 'x');
  big[100'000] = '\0';
  CHECK(accepted(with("Host: a\r\nContent-Length: 200000\r\n", big), 1)[0].body == big);
}

TEST_CASE("pipelined requests come out in order, with empty lines between") {
  const auto requests = accepted(
      "\r\nPOST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n"
      "POST /3 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nz\r\n0\r\n\r\nDELETE /4 HTTP/1.0\r\n\r\n",
      4);
  CHECK(requests[0].body == "abc");
  CHECK(requests[1].path == "/2");
  CHECK(requests[2].body == "z");
  CHECK(requests[3].method == "DELETE");
}

TEST_CASE("targets") {
  const Request absolute = one("GET http://Example.org:80/a?b=c HTTP/1.1\r\nHost: other\r\n\r\n");
  CHECK(absolute.path == "/a");
  CHECK(*absolute.query_value("b") == "c");
  CHECK(accepted("GET HTTP://h HTTP/1.1\r\nHost: h\r\n\r\n", 1)[0].path == "/");
  const Request no_path = one("GET http://h?q=1 HTTP/1.1\r\nHost: h\r\n\r\n");
  CHECK(no_path.path == "/");
  CHECK(*no_path.query_value("q") == "1");
  CHECK(accepted("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", 1)[0].path == "*");
  refused("GET * HTTP/1.1\r\nHost: a\r\n\r\n");
  refused("CONNECT * HTTP/1.1\r\nHost: a\r\n\r\n");
  refused("CONNECT a b HTTP/1.1\r\nHost: a\r\n\r\n");
  CHECK(accepted("CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", 1)[0].path == "a:80");  // refused by the router
  refused("GET a HTTP/1.1\r\nHost: a\r\n\r\n");
  refused("GET ftp://h/ HTTP/1.1\r\nHost: a\r\n\r\n");
  refused("GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n");
  refused("GET http://u@h/x HTTP/1.1\r\nHost: a\r\n\r\n");
  refused("GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n");
  refused("GET /\xC3\xA4 HTTP/1.1\r\nHost: a\r\n\r\n");
  refused("GET /?q=\xff HTTP/1.1\r\nHost: a\r\n\r\n");
  refused("GET /a\x7f HTTP/1.1\r\nHost: a\r\n\r\n");
  refused("GET /a\tb HTTP/1.1\r\nHost: a\r\n\r\n");
  refused("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n");
  refused("GET  /a HTTP/1.1\r\nHost: a\r\n\r\n");
  refused("GET /a  HTTP/1.1\r\nHost: a\r\n\r\n");
  refused("GET /?a=%0 HTTP/1.1\r\nHost: a\r\n\r\n");
}

TEST_CASE("request lines that are none") {
  refused("GET /\r\n\r\n");
  refused("GET / HTTP/2.0\r\nHost: a\r\n\r\n");
  refused("GET / HTTP/1.22\r\nHost: a\r\n\r\n");
  refused("GET / HTTP/1.1 2\r\nHost: a\r\n\r\n");
  refused("GET / http/1.1\r\nHost: a\r\n\r\n");
  refused("G@T / HTTP/1.1\r\nHost: a\r\n\r\n");
  refused(" GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  refused("GET / HTTP/1.1\nHost: a\n\n");
  refused("GET / HTTP/1.1\r\nHost: a\n\r\n");
  refused("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
  refused(std::string_view("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n", 12));  // TLS on the plain port
}

TEST_CASE("what is no request is told at its first bytes, without a line end") {
  refused("\x16");
  refused(" ");
  refused("(");
  refused(std::string(33, 'A'));
  CHECK(feed(std::string(32, 'A'), 1).waiting);
  CHECK(feed("GET", 1).waiting);
}

TEST_CASE("a path with a character that no URI has") {
  for (const char* path : {"/a\\b", "/<a>", "/\"a\"", "/{a}", "/a`b"}) {
    refused("GET " + std::string(path) + " HTTP/1.1\r\nHost: a\r\n\r\n");
  }
  accepted("GET /a|b^[c]?\"<>{}`\\ HTTP/1.1\r\nHost: a\r\n\r\n", 1);  // browsers send these
}

TEST_CASE("fields that may come once") {
  for (const char* name : {"Authorization", "Content-Type", "Idempotency-Key", "Range", "Origin"}) {
    const std::string field = std::string(name) + ": a\r\n";
    accepted(with("Host: a\r\n" + field), 1);
    refused(with("Host: a\r\n" + field + field));
  }
  accepted(with("Host: a\r\nAccept: a\r\nAccept: b\r\n"), 1);
}

TEST_CASE("a higher minor version is served as 1.1") {
  CHECK(accepted("GET /a HTTP/1.2\r\nHost: a\r\n\r\nGET /b HTTP/1.9\r\nHost: a\r\n\r\n", 2)[1].path == "/b");
}

TEST_CASE("cookie fields are one") {
  const Request request = one(with("Host: a\r\nCookie: a=1\r\nAccept: x\r\nCookie: b=2\r\nCookie: c\r\n"));
  CHECK(request.header("cookie") == "a=1; b=2; c");
  CHECK(request.headers.size() == 3);
}

TEST_CASE("trailers are read as strictly as headers") {
  refused(with("Host: a\r\nTransfer-Encoding: chunked\r\n", "1\r\nx\r\n0\r\nA: b\r\n c\r\n\r\n"));
  refused(with("Host: a\r\nTransfer-Encoding: chunked\r\n", "1\r\nx\r\n0;e\r\n A: b\r\n\r\n"));
  refused(with("Host: a\r\nTransfer-Encoding: chunked\r\n", "0\r\nA:\r\n\tc\r\n\r\n"));
}

TEST_CASE("a long trailer is too long however it comes") {
  const std::string long_one = "1\r\nx\r\n0\r\nA: " + std::string(17'000, 'b') + "\r\n\r\n";
  refused(with("Host: a\r\nTransfer-Encoding: chunked\r\n", long_one), Code::header_fields_too_large);
}

TEST_CASE("more than a hundred fields") {
  std::string fields = "Host: a\r\n";
  for (int i = 0; i < 99; ++i) fields += "a:\r\n";
  accepted(with(fields), 1);
  refused(with(fields + "a:\r\n"), Code::header_fields_too_large);
}

TEST_CASE("Host") {
  refused(with(""));
  refused(with("Host: a\r\nHost: a\r\n"));
  refused(with("Host: a\r\nhost: b\r\n"));
  for (const char* bad : {"", " ", "a b", "a/b", "a,b:x", "a:80:80", "a:8o", "[::1", "[::1]x", "[::g]", "[]", "u@a",
                          "a\\b", "<a>", ":80", "a?b", "a#b", "\xC3\xA4"}) {
    refused(with("Host: " + std::string(bad) + "\r\n"));
  }
  for (const char* good : {"a", "A.b-c_d", "127.0.0.1:1", "[::1]", "[::1]:7433", "a:", "x%41"}) {
    accepted(with("Host: " + std::string(good) + "\r\n"), 1);
  }
}

TEST_CASE("header lines that are refused") {
  refused(with("Host: a\r\nX: 1\r\n 2\r\n"));  // obs-fold
  refused(with("Host: a\r\nX: 1\r\n\t2\r\n"));
  refused(with("Host: a\r\nX:\r\n \r\n"));
  refused(with(" Host: a\r\n"));  // white space before the first field
  refused(with("Host : a\r\n"));
  refused(with("Host: a\r\nX\r\n"));
  refused(with("Host: a\r\n: x\r\n"));
  refused(with("Host: a\r\nX Y: 1\r\n"));
  refused(with("Host: a\r\nX: a\rb\r\n"));  // bare CR
  refused(with("Host: a\r\nX: a\r\r\n"));
  refused(with("Host: a\r\nX: a\nY: b\r\n"));  // bare LF
  refused(with(std::string("Host: a\r\nX: a\0b\r\n", 17)));
  refused(with("Host: a\r\nX: a\x01\r\n"));
  refused("GET /\r HTTP/1.1\r\nHost: a\r\n\r\n");
}

TEST_CASE("framing that could be read in two ways is refused") {
  refused(with("Host: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"));
  refused(with("Host: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n"));
  for (const char* coding : {"gzip", "gzip, chunked", "chunked, gzip", "chunked, chunked", "identity", "", "xchunked",
                             "chunked;a=b", "\"chunked\"", "chunked,", ",chunked"}) {
    refused(with("Host: a\r\nTransfer-Encoding: " + std::string(coding) + "\r\n", "0\r\n\r\n"));
  }
  refused(with("Host: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"));
  refused(with("Host: a\r\nTransfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"));
  refused("POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
  for (const char* length :
       {"", "-1", "+5", "5,5", "5, 5", "0x5", "5 5", "1e1", "18446744073709551616", "99999999999999999999999"}) {
    refused(with("Host: a\r\nContent-Length: " + std::string(length) + "\r\n", "hello"));
  }
  refused(with("Host: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n", "hello"));
  refused(with("Host: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n", "hello"));
}

TEST_CASE("chunks that are refused") {
  const auto chunks = [](std::string_view body, Code code = Code::bad_request) {
    refused(with("Host: a\r\nTransfer-Encoding: chunked\r\n", body), code);
  };
  chunks("\r\n\r\n\r\n");
  chunks("g\r\n\r\n\r\n");
  chunks("-5\r\nhello\r\n0\r\n\r\n");
  chunks("+5\r\nhello\r\n0\r\n\r\n");
  chunks("0x5\r\nhello\r\n0\r\n\r\n");
  chunks(" 5\r\nhello\r\n0\r\n\r\n");
  chunks("5 \r\nhello\r\n0\r\n\r\n");
  chunks("5\nhello\r\n0\r\n\r\n");
  chunks("5\r\nhelloX\r\n0\r\n\r\n");
  chunks("5\r\nhello\n0\r\n\r\n");
  chunks("5\r\nhello0\r\n\r\n");
  chunks("5;\r\nhello\r\n0\r\n\r\n");
  chunks("5;a=\"\n\"\r\nhello\r\n0\r\n\r\n");
  chunks("5;a=\r\nhello\r\n0\r\n\r\n");
  chunks("5;a\rb\r\nhello\r\n0\r\n\r\n");
  chunks("5\r\nhello\r\n0\r\nbad trailer\r\n\r\n");
  chunks("5\r\nhello\r\n0\r\nContent-Length: 5\r\n\r\n");
  chunks("5\r\nhello\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n");
  chunks("10000000000000000\r\nhello\r\n0\r\n\r\n");
  chunks("fffffffffffffffff\r\nhello\r\n0\r\n\r\n");
  chunks("ffffffffffffffff\r\nhello\r\n0\r\n\r\n", Code::content_too_large);
}

TEST_CASE("limits") {
  ReadLimits limits;
  limits.body_bytes = 10;
  limits.header.header_bytes = 200;
  limits.header.target_bytes = 50;
  accepted(with("Host: a\r\nContent-Length: 10\r\n", "0123456789"), 1, limits);
  refused(with("Host: a\r\nContent-Length: 11\r\n"), Code::content_too_large, limits);  // before any of it came
  refused(with("Host: a\r\nTransfer-Encoding: chunked\r\n", "6\r\n012345\r\n5\r\n"), Code::content_too_large, limits);
  accepted("GET /" + std::string(49, 'a') + " HTTP/1.1\r\nHost: a\r\n\r\n", 1, limits);
  refused("GET /" + std::string(50, 'a') + " HTTP/1.1\r\nHost: a\r\n\r\n", Code::uri_too_long, limits);
  refused("GET /" + std::string(200, 'a'), Code::uri_too_long, limits);
  refused(with("Host: a\r\nX: " + std::string(190, 'a') + "\r\n"), Code::header_fields_too_large, limits);
  refused(with("Host: a\r\nX: " + std::string(300, 'a')), Code::header_fields_too_large, limits);
  refused(with("Host: a\r\nTransfer-Encoding: chunked\r\n", "1;" + std::string(300, 'a')),
          Code::header_fields_too_large, limits);
  refused(with("Host: a\r\nTransfer-Encoding: chunked\r\n", "0\r\nX: " + std::string(300, 'a')),
          Code::header_fields_too_large, limits);
  // Extensions cost the sender's bandwidth, not ours: a body of them is cut short.
  std::string body;
  for (int i = 0; i < 400; ++i) body += "1;" + std::string(100, 'e') + "\r\nx\r\n";
  refused(with("Host: a\r\nTransfer-Encoding: chunked\r\n", body));
}

TEST_CASE("what a request asks of the connection") {
  const auto framing = [](std::string_view head) {
    const ReadLimits limits;
    RequestReader reader(limits);
    Request request;
    const auto room = reader.prepare();
    std::memcpy(room.data(), head.data(), head.size());
    reader.commit(head.size());
    REQUIRE(*reader.advance(request) == RequestReader::Progress::head);
    return reader.framing();
  };
  CHECK(framing("GET / HTTP/1.1\r\nHost: A.B:80\r\n\r\n").host == "a.b");
  CHECK(framing("GET http://C/ HTTP/1.1\r\nHost: a\r\n\r\n").host == "c");
  CHECK(framing("GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n").host == "::1");
  CHECK(framing("GET / HTTP/1.1\r\nHost: a\r\n\r\n").keep_alive);
  CHECK(!framing("GET / HTTP/1.1\r\nHost: a\r\nConnection: x , CLOSE\r\n\r\n").keep_alive);
  CHECK(!framing("GET / HTTP/1.0\r\nHost: a\r\n\r\n").keep_alive);
  CHECK(framing("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n").keep_alive);
  CHECK(framing("PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\n\r\n").expects_continue);
  CHECK(framing("PUT / HTTP/1.1\r\nHost: a\r\nExpect: x, 100-continue\r\n\r\n").expects_continue);
  CHECK(framing("GET https://a/ HTTP/1.1\r\nHost: a\r\n\r\n").https);
  CHECK(!framing("GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n").https);
  CHECK(!framing("PUT / HTTP/1.0\r\nHost: a\r\nExpect: 100-continue\r\n\r\n").expects_continue);
}

TEST_CASE("however the bytes are cut, the outcome is the same") {
  const std::string seeds[] = {
      with("Host: a\r\nContent-Length: 5\r\n", "helloGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
      with("Host: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n",
           "5;a=\"b\"\r\nhello\r\n10\r\n0123456789abcdef\r\n0\r\nX: y\r\n\r\nGET / HTTP/1.0\r\n\r\n"),
      "GET http://a:1/x%20y?q=%41&r HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n\r\nOPTIONS * HTTP/1.1\r\nHost: "
      "b\r\n\r\n"};
  constexpr auto spice = std::string_view("\r\n \t:;,=\"%\0\x7f\xff/*0fGx-", 20);
  std::mt19937 random(7);  // NOLINT: the same run every time
  for (int run = 0; run < 20'000; ++run) {
    std::string bytes = seeds[random() % std::size(seeds)];
    for (auto edits = random() % 4; edits > 0; --edits) {
      const std::size_t at = random() % bytes.size();
      switch (random() % 4) {
        case 0:
          bytes[at] = spice[random() % spice.size()];
          break;
        case 1:
          bytes.insert(at, 1, spice[random() % spice.size()]);
          break;
        case 2:
          bytes.erase(at, 1 + random() % 3);
          break;
        default:
          bytes.insert(at, bytes.substr(at, random() % 8));
          break;
      }
    }
    const Outcome whole = feed(bytes, bytes.size());
    const Outcome cut = feed(bytes, 1 + random() % 9);
    CAPTURE(bytes);
    REQUIRE(whole.requests.size() == cut.requests.size());
    for (std::size_t i = 0; i < whole.requests.size(); ++i) {
      REQUIRE(whole.requests[i].path == cut.requests[i].path);
      REQUIRE(whole.requests[i].query == cut.requests[i].query);
      REQUIRE(whole.requests[i].headers == cut.requests[i].headers);
      REQUIRE(whole.requests[i].body == cut.requests[i].body);
    }
    REQUIRE(whole.problem.has_value() == cut.problem.has_value());
    REQUIRE(whole.waiting == cut.waiting);
  }
}
