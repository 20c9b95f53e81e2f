#include "daemon/stream/position.hpp"

#include <doctest/doctest.h>

using namespace sessiond;
using namespace sessiond::stream;

TEST_CASE("positions") {
  CHECK(parse_position("3f9a1c02-1842") == Position{"3f9a1c02", 1842});
  CHECK(parse_position("00000000-0") == Position{"00000000", 0});
  CHECK(parse_position("ffffffff-9223372036854775807") == Position{"ffffffff", 9223372036854775807ULL});
  CHECK(to_string({"3f9a1c02", 1842}) == "3f9a1c02-1842");
  for (const char* text : {"",
                           "-",
                           "3f9a1c02",
                           "3f9a1c02-",
                           "3f9a1c02-01",
                           "3f9a1c02-00",
                           "3f9a1c02--1",
                           "3f9a1c02-+1",
                           "3f9a1c02- 1",
                           "3f9a1c02-1 ",
                           " 3f9a1c02-1",
                           "3F9A1C02-1",
                           "3f9a1c0-1",
                           "3f9a1c022-1",
                           "3f9a1c0g-1",
                           "3f9a1c02-1x",
                           "3f9a1c02-0x1",
                           "3f9a1c02-9223372036854775808",
                           "3f9a1c02-99999999999999999999999",
                           "3f9a1c02_1",
                           "1842"}) {
    CAPTURE(text);
    CHECK(!parse_position(text));
  }
  CHECK(!parse_position(std::string_view("3f9a1c02-1\0", 11)));
}

TEST_CASE("Last-Event-ID wins over after; what is malformed is named") {
  http::Request request;
  CHECK(asked_position(request).value() == std::nullopt);
  request.query = {{"after", "0000000a-1"}};
  CHECK(asked_position(request).value() == Position{"0000000a", 1});
  request.headers = {{"last-event-id", "0000000a-7"}};
  CHECK(asked_position(request).value() == Position{"0000000a", 7});
  request.query = {{"after", "rubbish"}};
  CHECK(asked_position(request).value() == Position{"0000000a", 7});

  request.headers = {{"last-event-id", "17"}};
  auto refused = asked_position(request);
  REQUIRE(!refused);
  CHECK(refused.error().code == Code::bad_request);
  CHECK(refused.error().detail.starts_with("Last-Event-ID "));
  request.headers.clear();
  for (const char* after : {"", "rubbish"}) {
    request.query = {{"after", after}};
    refused = asked_position(request);
    REQUIRE(!refused);
    CHECK(refused.error().code == Code::bad_request);
    CHECK(refused.error().detail.starts_with("after "));
  }
}
