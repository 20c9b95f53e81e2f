#include "daemon/ledger/projection.hpp"

#include <doctest/doctest.h>

#include <atomic>

#include "tests/unit/temp_dir.hpp"

using namespace sessiond;
using sessiond::testing::TempDir;

TEST_CASE("ends that lines on their way need are not let go") {
  const TempDir dir;
  const Paths paths(dir.path(), "agents/{agentId}/sessions/sessions.json");
  const std::atomic<bool> adopting{false};
  Projection projection(paths, {}, adopting);
  const std::vector<Bytes> events{std::make_shared<const std::string>(R"({"type":"message.appended"})")};
  const std::vector<std::string> places{
      R"({"file":"s.jsonl","agent":"main","at":0,"seq":1,"line":"{\"type\":\"message\",\"id\":\"a\"}\n"})"};
  REQUIRE(projection.add(1, events, places));
  projection.let_go("main");
  REQUIRE(projection.flush());
  auto foreign = projection.foreign("main", {});
  REQUIRE(foreign);
  CHECK(foreign->empty());
  projection.let_go("main");  // not saved
  foreign = projection.foreign("main", {});
  REQUIRE(foreign);
  CHECK(foreign->empty());
  REQUIRE(projection.sync());
  projection.let_go("main");
  foreign = projection.foreign("main", {"s.jsonl"});
  REQUIRE(foreign);
  CHECK(foreign->empty());
}
