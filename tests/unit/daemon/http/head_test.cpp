// parse_head and check_head beside Beast's parser, which read heads before: both accept the same, and read it the same.
#include "daemon/http/head.hpp"

#include <doctest/doctest.h>

#include <boost/beast/http/basic_parser.hpp>
#include <list>
#include <optional>
#include <random>

#include "daemon/http/strict.hpp"
#include "store/names.hpp"

using namespace sessiond;
using namespace sessiond::http;

namespace {

namespace beast = boost::beast;

struct Head {
  Request request;
  Framing framing;
};

struct BeastParser final : beast::http::basic_parser<true> {
  explicit BeastParser(Request& into) : request(into) { eager(true); }
  void on_request_impl(beast::http::verb, beast::string_view method, beast::string_view target, int version,
                       beast::error_code&) override {
    request.method = std::string_view(method.data(), method.size());
    line = {.target = {target.data(), target.size()}, .minor = version % 10};
  }
  void on_response_impl(int, beast::string_view, int, beast::error_code&) override {}
  void on_field_impl(beast::http::field, beast::string_view name, beast::string_view value,
                     beast::error_code&) override {
    request.headers.emplace_back(names.emplace_back(store::lower({name.data(), name.size()})),
                                 std::string_view(value.data(), value.size()));
  }
  void on_header_impl(beast::error_code&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, beast::error_code&) override {}
  std::size_t on_body_impl(beast::string_view, beast::error_code&) override { return 0; }
  void on_chunk_header_impl(std::uint64_t, beast::string_view, beast::error_code&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, beast::string_view, beast::error_code&) override { return 0; }
  void on_finish_impl(beast::error_code&) override {}

  Request& request;
  RequestLine line;
  std::list<std::string> names;
};

// The block must be one that HeaderScanner accepts.
std::optional<Head> by_beast(std::string& block, BeastParser& parser, Head& head) {
  const std::size_t minor = block.find("\r\n") - 1;
  if (block[minor - 1] == '.' && block[minor] >= '2' && block[minor] <= '9') block[minor] = '1';
  parser.header_limit(static_cast<std::uint32_t>(block.size()));
  parser.body_limit(boost::none);
  beast::error_code error;
  const std::size_t used = parser.put(boost::asio::buffer(block), error);
  if (error || used != block.size() || !parser.is_header_done()) return {};
  auto framing = check_head(head.request, parser.line, {});
  if (!framing) return {};
  head.framing = std::move(*framing);
  return std::move(head);
}

std::optional<Head> by_us(std::string_view block) {
  Head head;
  const auto line = parse_head(block, head.request);
  if (!line) return {};
  auto framing = check_head(head.request, *line, {});
  if (!framing) return {};
  head.framing = std::move(*framing);
  return head;
}

// Returns whether the head is good.
bool same(std::string_view bytes) {
  HeaderScanner scanner;
  const auto length = scanner.scan(bytes, {});
  if (!length || *length == 0) return false;
  CAPTURE(bytes);
  const std::optional<Head> ours = by_us(bytes.substr(0, *length));
  std::string block(bytes.substr(0, *length));
  Head head;
  BeastParser parser(head.request);
  const std::optional<Head> theirs = by_beast(block, parser, head);
  REQUIRE(ours.has_value() == theirs.has_value());
  if (!ours) return false;
  REQUIRE(ours->request.method == theirs->request.method);
  REQUIRE(ours->request.path == theirs->request.path);
  REQUIRE(ours->request.query == theirs->request.query);
  REQUIRE(ours->request.headers == theirs->request.headers);
  REQUIRE(ours->framing.host == theirs->framing.host);
  REQUIRE(ours->framing.length == theirs->framing.length);
  REQUIRE(ours->framing.chunked == theirs->framing.chunked);
  REQUIRE(ours->framing.keep_alive == theirs->framing.keep_alive);
  REQUIRE(ours->framing.expects_continue == theirs->framing.expects_continue);
  REQUIRE(ours->framing.https == theirs->framing.https);
  REQUIRE(ours->framing.minor == theirs->framing.minor);
  return true;
}

}  // namespace

TEST_CASE("each byte at each place of a head is read as Beast reads it") {
  const std::string good = "GET /a?b HTTP/1.1\r\nHost: a\r\nConnection: x , close\r\nX: y\r\n\r\n";
  REQUIRE(same(good));
  int accepted = 0;
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (unsigned byte = 0; byte < 256; ++byte) {
      std::string changed = good;
      changed[at] = static_cast<char>(byte);
      accepted += same(changed) ? 1 : 0;
      std::string longer = good;
      longer.insert(at, 1, static_cast<char>(byte));
      accepted += same(longer) ? 1 : 0;
    }
  }
  CHECK(accepted > 1000);
}

TEST_CASE("heads that were cut, doubled and mixed are read as Beast reads them") {
  const std::string seeds[] = {
      "POST /p?q=%41&r HTTP/1.1\r\nHost: a:80\r\nContent-Length: 05\r\nCookie: a=1\r\nAccept:\r\nCookie:  b \t\r\n\r\n",
      "GET http://a:1/x%20y HTTP/1.0\r\nHost: b\r\nTransfer-Encoding: Chunked\r\nProxy-Connection: ,a, b,\r\n\r\n",
      "OPTIONS * HTTP/1.7\r\nHOST: [::1]:1\r\nConnection: Keep-Alive\r\nExpect: x, 100-continue\r\nRange: a\r\n\r\n",
      "CONNECT a:80 HTTP/1.1\r\nHost: a\r\nConnection:\r\nUpgrade: h2c\r\nAuthorization: Bearer x\xC3\xA4\r\n\r\n"};
  const std::string_view spice[] = {"\r\n", " ",    "\t",   ":",      ",",   "\x7f", "\xff", "%",          "/",
                                    "?",    "#",    "\\",   "HTTP/1", ".",   "@",    "\"",   ": x\r\nY",   "\r",
                                    "5",    "http", "://x", "x\r\n ", "a b", "5, 5", "-",    "\r\nX: \x01"};
  std::mt19937 random(11);  // NOLINT: the same run every time
  int accepted = 0;
  for (int run = 0; run < 60'000; ++run) {
    std::string bytes = seeds[random() % std::size(seeds)];
    for (auto edits = 1 + random() % 3; edits > 0; --edits) {
      const std::size_t at = random() % bytes.size();
      switch (random() % 3) {
        case 0:
          bytes.insert(at, spice[random() % std::size(spice)]);
          break;
        case 1:
          bytes.erase(at, 1 + random() % 4);
          break;
        default:
          bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 24));
          break;
      }
    }
    accepted += same(bytes) ? 1 : 0;
  }
  CHECK(accepted > 1000);
}

TEST_CASE("a request keeps its headers when it is moved") {
  Request request;
  REQUIRE(parse_head("GET / HTTP/1.0\r\nA: b\r\n\r\n", request));
  const Request moved = std::move(request);
  CHECK(moved.header("a") == "b");
}
