#include "store/journal/event.hpp"

#include <doctest/doctest.h>

using namespace sessiond;
using namespace sessiond::journal;

namespace {

Event message(std::string_view data) {
  return make_event({.seq = 7, .time = 1, .type = EventType::message_appended, .agent = "main", .actor = "a"}, data);
}

}  // namespace

TEST_CASE("an event is read as it was written") {
  const Event event = message(R"({"set":{},"message":{"a":"}}"}})");
  CHECK(event.data == R"({"set":{},"message":{"a":"}}"}})");
  const auto read = parse_event(*event.json);
  REQUIRE(read);
  CHECK(read->data == event.data);
  CHECK(read->envelope.actor == "a");
  CHECK(json::check(*event.json));
}

TEST_CASE("a message goes to the channel of its delivery, which stands before the message") {
  const auto channel_of = [](std::string_view data) {
    return parse_event(*message(data).json)->envelope.delivery_channel;
  };
  CHECK(channel_of(R"({"set":{},"deliver":true,"delivery":{"channel":"x"},"message":{}})") == "x");
  CHECK(channel_of(R"({"set":{},"delivery":{"channel":"x"},"message":{}})").empty());
  CHECK(channel_of(R"({"set":{},"message":{"deliver":true,"delivery":{"channel":"y"}}})").empty());
  CHECK(channel_of("{}").empty());
  CHECK(parse_event(*message(R"({"deliver":true,"delivery":{},"message":{}})").json)->envelope.delivers);
}
