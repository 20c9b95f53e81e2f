#include "daemon/stream/frames.hpp"

#include <doctest/doctest.h>

#include "store/journal/event.hpp"

using namespace sessiond;

TEST_CASE("frames") {
  CHECK(frames::retry(2000) == "retry: 2000\n\n");
  CHECK(frames::event("e-1", "stream.gap", "{}") == "id: e-1\nevent: stream.gap\ndata: {}\n\n");
  CHECK(frames::position("e-1") == "id: e-1\n\n");
  CHECK(frames::ping(false) == ": ping\n\n");
  CHECK(frames::ping(true) == "event: ping\ndata: {}\n\n");
  CHECK(frames::bye(2000) == "event: stream.bye\ndata: {\"retryMs\":2000}\n\n");
}

TEST_CASE("the frame of an event, and its data again") {
  const journal::Event event = journal::make_event({.seq = 7, .time = 1, .type = journal::EventType::message_appended},
                                                   R"({"text":"\ndata: x"})");
  std::string text;
  frames::append_event(text, "3f9a1c02", 7, "message.appended", *event.json);
  CHECK(text == "id: 3f9a1c02-7\nevent: message.appended\ndata: " + *event.json + "\n\n");
  CHECK(frames::data_of(text) == *event.json);
}
