#include "daemon/decide/lineage.hpp"

#include "tests/unit/daemon/decide/world.hpp"

using namespace sessiond;
using namespace sessiond::decide;

TEST_CASE("a session descends from its parent and so on, in any spelling, also when one is gone") {
  World world;
  world.store("agent:main:slack:direct:a", R"({"sessionId":"a"})");
  world.store("agent:main:b", R"({"sessionId":"b","spawnedBy":"agent:main:slack:dm:A"})");
  world.store("agent:main:c", R"({"sessionId":"c","spawnedBy":"agent:main:b"})");
  world.store("agent:main:d", R"({"sessionId":"d","spawnedBy":"agent:main:gone"})");
  world.store("agent:main:ring", R"({"sessionId":"r","spawnedBy":"agent:main:ring"})");
  const auto session = [&world](std::string_view key) -> const Session& { return world.session(key); };
  CHECK(descends_from(world.state, session("agent:main:c"), "agent:main:slack:direct:a"));
  CHECK(descends_from(world.state, session("agent:main:c"), "agent:main:SLACK:dm:a"));
  CHECK(descends_from(world.state, session("agent:main:d"), "agent:main:gone"));
  CHECK_FALSE(descends_from(world.state, session("agent:main:b"), "agent:main:c"));
  CHECK_FALSE(descends_from(world.state, session("agent:main:ring"), "agent:main:a"));
  CHECK(family_of(world.state, "agent:main:slack:dm:a").size() == 3);
  CHECK(family_of(world.state, "agent:main:gone").size() == 1);
  CHECK(family_of(world.state, "agent:main:ring").size() == 1);

  const Lineage lineage("secret");
  const std::string of_a = lineage.tag("main", "agent:main:slack:direct:a");
  CHECK(of_a.size() == 16);
  CHECK(of_a == lineage.tag("main", "agent:main:slack:dm:A"));
  CHECK(of_a != lineage.tag("other", "agent:main:slack:direct:a"));
  CHECK(of_a != Lineage("another").tag("main", "agent:main:slack:direct:a"));
  CHECK(lineage.of(world.state, session("agent:main:slack:direct:a")).empty());
  CHECK(lineage.of(world.state, session("agent:main:c")) == lineage.tag("main", "agent:main:b") + " " + of_a);
  CHECK(lineage.of(world.state, session("agent:main:ring")).size() == 64 * 17 - 1);
}
