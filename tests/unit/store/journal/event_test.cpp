#include "store/journal/event.hpp"

#include <doctest/doctest.h>

using namespace sessiond;
using namespace sessiond::journal;

namespace {

Event message(std::string_view data) {
  return make_event({.seq = 7, .time = 1, .type = EventType::message_appended, .agent = "main", .actor = "a"}, data);
}

}  // namespace

TEST_CASE("a member that is added to an event is in its data, and in what is read again") {
  Event event = message(R"({"set":{},"message":{"a":"}}"}})");
  add_to_data(event, "inbound", R"({"run":null})");
  CHECK(event.data == R"({"set":{},"message":{"a":"}}"},"inbound":{"run":null}})");
  add_to_data(event, "n", "1");
  const auto read = parse_event(*event.json);
  REQUIRE(read);
  CHECK(read->data == event.data);
  CHECK(read->envelope.actor == "a");
  CHECK(json::check(*event.json));
}

TEST_CASE("the delivery of a message is the member before the message") {
  CHECK(delivery_of(message(R"({"set":{},"deliver":true,"delivery":{"channel":"x"},"message":{}})")) ==
        R"({"channel":"x"})");
  CHECK(delivery_of(message(R"({"set":{},"message":{"delivery":{"channel":"y"}},"delivery":{"channel":"z"}})")) ==
        "{}");
  CHECK(delivery_of(message("{}")) == "{}");
  const Event sent = message(R"({"deliver":true,"delivery":{"channel":"x"},"message":{}})");
  const Event kept = message(R"({"delivery":{"channel":"x"},"message":{}})");
  CHECK(parse_event(*sent.json)->envelope.delivery_channel == "x");
  CHECK(parse_event(*kept.json)->envelope.delivery_channel.empty());
}
