#include "daemon/stream/cursor.hpp"

#include <doctest/doctest.h>

using namespace sessiond;
using namespace sessiond::stream;

TEST_CASE("a cursor moves forward by what is sent, skipped and reported") {
  StreamCursor cursor;
  cursor.start_at(5);
  CHECK(cursor.next() == 5);
  CHECK(cursor.reached() == 4);
  CHECK(cursor.last_id_sent() == 4);
  cursor.sent(7);
  CHECK(cursor.next() == 8);
  CHECK(cursor.last_id_sent() == 7);
  cursor.skip_to(10);
  CHECK(cursor.next() == 10);
  CHECK(cursor.last_id_sent() == 7);
  cursor.id_sent(9);
  CHECK(cursor.last_id_sent() == 9);
}

TEST_CASE("a following cursor is where its audience is, or ahead of it within a round") {
  std::uint64_t reached = 4;
  StreamCursor cursor;
  cursor.start_at(5);
  cursor.follow(reached);
  reached = 9;  // events that the view does not show: nothing was sent
  CHECK(cursor.next() == 10);
  CHECK(cursor.last_id_sent() == 4);
  cursor.sent(11);  // the round under way has come to this client
  cursor.skip_to(13);
  CHECK(cursor.next() == 13);
  reached = 12;
  CHECK(cursor.next() == 13);
  cursor.unfollow();
  reached = 20;
  CHECK(cursor.next() == 13);
}
