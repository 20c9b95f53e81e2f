#include "daemon/decide/transcript_ends.hpp"

#include <doctest/doctest.h>

using namespace sessiond;
using namespace sessiond::decide;

TEST_CASE("an end that was forgotten while it was read is told from one that was not") {
  TranscriptEnds ends;
  const auto before = ends.forgotten("a.jsonl");
  ends.forget("a.jsonl");
  const auto between = ends.forgotten("a.jsonl");
  CHECK(between != before);  // the first read of it may be under way
  ends.find_or_add("a.jsonl").count = 1;
  ends.forget("a.jsonl");
  CHECK(ends.forgotten("a.jsonl") != between);
  CHECK(ends.find("a.jsonl") == nullptr);
  CHECK(ends.forgotten("b.jsonl") == before);  // one busy transcript holds up no other
}
