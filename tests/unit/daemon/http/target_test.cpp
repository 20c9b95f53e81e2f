#include "daemon/http/target.hpp"

#include <doctest/doctest.h>

using namespace sessiond;
using namespace sessiond::http;

namespace {

Result<std::vector<std::string>> split_path(std::string_view raw_path) {
  PathSegments split;
  const auto segments = split.split(raw_path);
  if (!segments) return std::unexpected(segments.error());
  return std::vector<std::string>(segments->begin(), segments->end());
}

}  // namespace

TEST_CASE("a path is split before it is decoded, and decoded once") {
  CHECK(*split_path("/") == std::vector<std::string>{""});
  CHECK(*split_path("/v1/agents") == std::vector<std::string>{"v1", "agents"});
  CHECK(*split_path("/v1/") == std::vector<std::string>{"v1", ""});
  CHECK(*split_path("//") == std::vector<std::string>{"", ""});
  CHECK(*split_path("/a%2Fb/c") == std::vector<std::string>{"a/b", "c"});
  CHECK(*split_path("/agent:main:x") == std::vector<std::string>{"agent:main:x"});
  CHECK(*split_path("/%2541") == std::vector<std::string>{"%41"});
  CHECK(*split_path("/a+b") == std::vector<std::string>{"a+b"});
  CHECK(*split_path("/%C3%a4") == std::vector<std::string>{"\xC3\xA4"});
  CHECK(*split_path("/...") == std::vector<std::string>{"..."});
}

TEST_CASE("a path of many segments, each of them with an escape") {
  std::string path;
  std::vector<std::string> segments;
  for (int i = 0; i < 50; ++i) {
    path += "/%61" + std::to_string(i);
    segments.push_back("a" + std::to_string(i));
  }
  CHECK(*split_path(path) == segments);
}

TEST_CASE("paths that are refused") {
  for (const char* path : {"/%", "/%4", "/%g0", "/%0g", "/a%", "/%00", "/a%00b", "/.", "/..", "/a/../b", "/%2e",
                           "/%2E%2e", "/.%2e", "/a/%2e%2e/b", "/% 41", "/%+4"}) {
    CAPTURE(path);
    const auto result = split_path(path);
    REQUIRE(!result);
    CHECK(result.error().code == Code::bad_request);
  }
}

TEST_CASE("queries") {
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  CHECK(*split_query("") == Pairs{});
  CHECK(*split_query("&&") == Pairs{});
  CHECK(*split_query("a=1&b&c=&=d") == Pairs{{"a", "1"}, {"b", ""}, {"c", ""}, {"", "d"}});
  CHECK(*split_query("a=b=c") == Pairs{{"a", "b=c"}});
  CHECK(*split_query("q=a+b%20c%26d") == Pairs{{"q", "a+b c&d"}});
  CHECK(*split_query("x%3D=1") == Pairs{{"x=", "1"}});
  CHECK(!split_query("a=%zz"));
  CHECK(!split_query("%=1"));
  CHECK(!split_query("a=1&b=%00"));
}
