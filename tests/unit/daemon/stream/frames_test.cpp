#include "daemon/stream/frames.hpp"

#include <doctest/doctest.h>

using namespace sessiond;

namespace {

Event of_size(std::uint64_t seq, std::size_t bytes) {
  return make_event({.seq = seq, .time = 1, .type = EventType::message_appended},
                    "{\"text\":\"" + std::string(bytes, 'x') + "\"}");
}

std::string joined(const frames::Gather& gather) {
  std::string out;
  for (const std::string_view buffer : gather.buffers()) out += buffer;
  return out;
}

}  // namespace

TEST_CASE("frames") {
  CHECK(frames::retry(2000) == "retry: 2000\n\n");
  CHECK(frames::event("e-1", "stream.gap", "{}") == "id: e-1\nevent: stream.gap\ndata: {}\n\n");
  CHECK(frames::position("e-1") == "id: e-1\n\n");
  CHECK(frames::ping(false) == ": ping\n\n");
  CHECK(frames::ping(true) == "event: ping\ndata: {}\n\n");
  CHECK(frames::bye(2000) == "event: stream.bye\ndata: {\"retryMs\":2000}\n\n");
}

TEST_CASE("a gather is its events one after the other, big ones and small ones mixed") {
  frames::Gather gather("3f9a1c02");
  CHECK(gather.empty());
  std::string expected;
  std::uint64_t seq = 0;
  for (const std::size_t bytes : {10U, 2000U, 3000U, 0U, 5U, 1200U}) {
    const Event event = of_size(++seq, bytes);  // gone before it is written
    gather.add(event);
    expected += "id: 3f9a1c02-" + std::to_string(seq) + "\nevent: message.appended\ndata: " + *event.json + "\n\n";
  }
  CHECK(!gather.full());
  CHECK(joined(gather) == expected);
}

TEST_CASE("a gather is bounded by bytes and by events, and takes one event of any size") {
  frames::Gather one("3f9a1c02");
  one.add(of_size(1, 8 << 20));
  CHECK(one.full());
  frames::Gather many("3f9a1c02");
  std::uint64_t seq = 0;
  while (!many.full()) many.add(of_size(++seq, 1));
  CHECK(seq == 512);
  frames::Gather big("3f9a1c02");
  seq = 0;
  while (!big.full()) big.add(of_size(++seq, 10'000));
  CHECK(seq < 28);
  CHECK(seq > 20);
}
