#include "daemon/stream/options.hpp"

#include <doctest/doctest.h>

using namespace sessiond;
using namespace sessiond::stream;

namespace {

Result<StreamOptions> parse(std::string name, std::string value) {
  http::Request request;
  request.query = {{std::move(name), std::move(value)}};
  return stream_options(request, 15'000);
}

}  // namespace

TEST_CASE("how a stream runs") {
  CHECK(stream_options({}, 15'000)->heartbeat_ms == 15'000);
  CHECK(stream_options({}, 15'000)->replay == 0);
  CHECK(!stream_options({}, 15'000)->ping_event);
  CHECK(parse("heartbeatMs", "100")->heartbeat_ms == 100);
  CHECK(parse("heartbeatMs", "60000")->heartbeat_ms == 60'000);
  CHECK(parse("replay", "0")->replay == 0);
  CHECK(parse("replay", "1000")->replay == 1000);
  CHECK(parse("ping", "event")->ping_event);
}

TEST_CASE("what is malformed or out of range is bad_request and named") {
  const std::pair<std::string, std::string> bad[] = {{"heartbeatMs", ""},
                                                     {"heartbeatMs", "99"},
                                                     {"heartbeatMs", "60001"},
                                                     {"heartbeatMs", "1e3"},
                                                     {"heartbeatMs", "-1"},
                                                     {"heartbeatMs", " 100"},
                                                     {"heartbeatMs", "99999999999999999999"},
                                                     {"replay", ""},
                                                     {"replay", "-1"},
                                                     {"replay", "1001"},
                                                     {"replay", "5 "},
                                                     {"ping", ""},
                                                     {"ping", "comment"}};
  for (const auto& [name, value] : bad) {
    CAPTURE(name);
    CAPTURE(value);
    const auto parsed = parse(name, value);
    REQUIRE(!parsed);
    CHECK(parsed.error().code == Code::bad_request);
    CHECK(parsed.error().detail.find(name) != std::string::npos);
  }
}
