#include "daemon/ledger/external.hpp"

#include "world.hpp"

using namespace sessiond;

namespace {

ForeignChange::Changed changed(std::string_view base, std::string_view theirs, std::string key = "k") {
  return {.key = std::move(key), .edit = {}, .base = raw(base), .theirs = raw(theirs)};
}

Decision take(World& world, const ForeignChange& change, bool at_load = false) {
  const Context context = world.context("external");
  return world.commit(decide_external(world.state, change, context, at_load));
}

}  // namespace

TEST_CASE("created elsewhere") {
  World world;
  ForeignChange change;
  change.created = {
      {"Odd Key", raw(R"({"sessionId":"x","rev":99,"n":1e400})")}, {"no object", raw("[]")}, {"null", {}}};
  const Decision done = take(world, change);
  REQUIRE(done.events.size() == 2);
  CHECK(at(done.events[0].data, "reason") == "\"external\"");
  CHECK(done.events[0].envelope.source == "external");
  CHECK(done.events[1].envelope.type == EventType::store_external_change);
  CHECK(done.events[1].envelope.key.empty());
  CHECK(at(done.events[1].data, "changed") == R"(["Odd Key"])");
  CHECK(at(done.events[1].data, "resync") == "true");
  CHECK(*world.session("Odd Key").entry() == R"({"sessionId":"x","rev":1,"n":1e400})");  // rev is ours
  CHECK(world.state.size() == 1);
}

TEST_CASE("created elsewhere and here: merged; the same: nothing") {
  World world;
  world.store("k", R"({"sessionId":"x","updatedAt":5,"a":1})");
  ForeignChange change;
  change.created = {{"k", raw(R"({"sessionId":"x","updatedAt":9,"b":2})")}};
  const Decision done = take(world, change);
  CHECK(done.events.at(0).envelope.type == EventType::session_updated);
  CHECK(world.field("k", "a") == "1");
  CHECK(world.field("k", "b") == "2");
  change.created = {{"k", raw(R"({"sessionId":"x","a":1})")}};
  CHECK(take(world, change).events.empty());
  change.created = {{"K", raw(R"({"sessionId":"y"})")}};  // keys are exact here
  CHECK(take(world, change).events.at(0).envelope.type == EventType::session_created);
  CHECK(world.state.size() == 2);
}

TEST_CASE("updated elsewhere: theirs, ours, and both") {
  struct Case {
    std::string_view base, ours, theirs, after;  // without rev
  };
  const std::vector<Case> cases{
      {R"({"a":1})", R"({"a":1})", R"({"a":2})", R"({"a":2})"},
      {R"({"a":1,"b":1})", R"({"a":1,"b":2})", R"({"a":2,"b":1})", R"({"a":2,"b":2})"},
      {R"({"a":1,"updatedAt":1})", R"({"a":2,"updatedAt":5})", R"({"a":3,"updatedAt":4})", R"({"a":2,"updatedAt":5})"},
      {R"({"a":1,"updatedAt":1})", R"({"a":2,"updatedAt":5})", R"({"a":3,"updatedAt":6})", R"({"a":3,"updatedAt":6})"},
      {R"({"a":1,"b":1})", R"({"a":1,"b":1})", R"({"b":1})", R"({"b":1})"},
      {R"({"a":1})", R"({"a":1})", R"({ "a" : 1 })", R"({"a":1})"},
      {R"({"inputTokens":1,"totalTokens":1})", R"({"inputTokens":2,"totalTokens":1})",
       R"({"inputTokens":1,"totalTokens":9})", R"({"inputTokens":2,"totalTokens":1})"}};  // together or not at all
  for (const Case& one : cases) {
    CAPTURE(one.theirs);
    World world;
    world.store("k", one.ours);
    world.state.dirty.insert("k");
    ForeignChange change;
    change.updated = {changed(one.base, one.theirs)};
    const Decision done = take(world, change);
    CHECK(json::apply(*world.session("k").entry(), {.set = {}, .unset = {"rev"}}) == one.after);
    CHECK(done.events.size() == (one.ours == one.after ? 0 : 2));
  }
}

TEST_CASE("a new session id is their reset") {
  World world;
  world.store("k", R"({"sessionId":"old","a":1})");
  world.state.topics("old").insert("t");
  ForeignChange change;
  change.updated = {changed(R"({"sessionId":"old","a":1})", R"({"sessionId":"new","a":1})")};
  const Decision done = take(world, change);
  REQUIRE(done.events.size() == 2);
  CHECK(done.events[0].envelope.type == EventType::session_reset);
  CHECK(done.events[0].envelope.session_id == "new");
  CHECK(at(done.events[0].data, "previousSessionId") == "\"old\"");
  CHECK(at(done.events[0].data, "archivedAs") == "[]");
  CHECK(world.session("new").key() == "k");
  CHECK(std::as_const(world.state).topics("old") == nullptr);
}

TEST_CASE("what we deleted stays deleted") {
  World world;
  ForeignChange change;
  change.updated = {changed(R"({"a":1})", R"({"a":2})")};
  CHECK(take(world, change).events.empty());
  CHECK(world.state.size() == 0);
}

TEST_CASE("deleted elsewhere") {
  for (const bool at_load : {false, true}) {
    World world;
    world.store("k", R"({"sessionId":"s"})");
    ForeignChange change;
    change.deleted = {"k"};
    const Decision done = take(world, change, at_load);
    REQUIRE(done.events.size() == 2);
    CHECK(done.events[0].envelope.type == EventType::session_deleted);
    CHECK(done.events[0].envelope.session_id == "s");
    CHECK(at(done.events[0].data, "archivedAs") == "[]");
    CHECK(world.state.size() == 0);

    World kept;  // we hold a change that they have not seen
    kept.store("k", R"({"sessionId":"s"})");
    kept.state.dirty.insert("k");
    CHECK(take(kept, change, at_load).events.empty());
    CHECK(kept.state.size() == 1);

    World other;  // another key, though lookups would find it
    other.store("K", "{}");
    CHECK(take(other, change, at_load).events.empty());
    CHECK(other.state.size() == 1);

    World absent;  // at load the state lacks it already, but subscribers were not told
    const Decision told = take(absent, change, at_load);
    CHECK(told.events.size() == (at_load ? 2 : 0));
    if (at_load) CHECK(told.events[0].envelope.key == "k");
  }
}

TEST_CASE("several at once: one event tells all") {
  World world;
  world.store("a", R"({"x":1})");
  world.store("b", R"({"x":1})");
  ForeignChange change;
  change.created = {{"c", raw("{}")}};
  change.updated = {changed(R"({"x":1})", R"({"x":2})", "a")};
  change.deleted = {"b"};
  const Decision done = take(world, change);
  CHECK(done.events.size() == 4);
  CHECK(at(done.events.back().data, "changed") == R"(["c","a","b"])");
  CHECK(take(world, {}).events.empty());
}
