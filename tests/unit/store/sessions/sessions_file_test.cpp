#include "store/sessions/sessions_file.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/store/sessions/store_fixture.hpp"

using namespace sessiond;
using namespace sessiond::sessions;
using namespace sessiond::testing;
namespace fs = std::filesystem;

namespace {

std::int64_t mtime_ms(const fs::path& path) {
  struct stat status{};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return store::identity(status).mtime_ns / 1'000'000;
}

}  // namespace

TEST_CASE("an absent store is empty, and is made by the first checkpoint") {
  StoreFixture at;
  fs::remove_all(at.sessions);
  SessionsFile file(at.options());
  const LoadReport report = loaded(file);
  CHECK(report.entries.empty());
  CHECK_FALSE(report.changed_while_down);
  CHECK_FALSE(report.rebuilt);
  CHECK(report.repairs.empty());
  CHECK_FALSE(fs::exists(at.path));
  const auto result = checkpointed(file, {named("b", R"({"n":1})"), named("a", R"({"n":2})")});
  CHECK_FALSE(result.foreign);
  CHECK(at.text() == "{\n\"b\": {\"n\":1},\n\"a\": {\"n\":2}\n}\n");
  CHECK(result.bytes == at.text().size());
  CHECK(at.names(at.sessions) == std::set<std::string>{"sessions.json"});
  CHECK((fs::status(at.path).permissions() & fs::perms::mask) == fs::perms(0600));
  CHECK((fs::status(at.sessions).permissions() & fs::perms::mask) == fs::perms(0700));
}

TEST_CASE("changes keep places, new keys come last, deleted ones go") {
  for (const bool exchange : {true, false}) {
    StoreFixture at;
    at.exchange = exchange;
    at.replace(R"({"a":{"n":1},"\/b":{"n":2},"c":{"n":3},"odd":null})");
    SessionsFile file(at.options());
    loaded(file);
    checkpointed(file, {named("new", "{}"),
                        named("/b", R"({"n":20})"),
                        {"a", nullptr},
                        {"never", nullptr},
                        named("c", "{}"),
                        named("c", R"({"n":30})")});
    CHECK(at.text() == "{\n\"\\/b\": {\"n\":20},\n\"c\": {\"n\":30},\n\"odd\": null,\n\"new\": {}\n}\n");
    checkpointed(file, {named("a", "{}"), {"odd", nullptr}});
    CHECK(at.text() == "{\n\"\\/b\": {\"n\":20},\n\"c\": {\"n\":30},\n\"new\": {},\n\"a\": {}\n}\n");
    CHECK(at.names(at.sessions) == std::set<std::string>{"sessions.json"});
  }
}

TEST_CASE("previous is the generation before the last; adopting a foreign store keeps it at once") {
  for (const bool exchange : {true, false}) {
    StoreFixture at;
    at.exchange = exchange;
    at.replace(R"({"a":{"n":1}})");
    SessionsFile file(at.options());
    loaded(file);
    CHECK(*store::read_file(at.previous) == "{\n\"a\": {\"n\":1}\n}\n");
    checkpointed(file, {named("a", R"({"n":2})")});
    CHECK(*store::read_file(at.previous) == R"({"a":{"n":1}})");
    checkpointed(file, {named("a", R"({"n":3})")});
    CHECK(*store::read_file(at.previous) == "{\n\"a\": {\"n\":2}\n}\n");
    CHECK(*store::read_file(at.generations / "main.current.json") == at.text());
  }
}

TEST_CASE("the mtime in ms moves with every checkpoint, also from a time to come") {
  StoreFixture at;
  SessionsFile file(at.options());
  loaded(file);
  checkpointed(file, {named("a", "{}")});
  for (int turn = 0; turn < 30; ++turn) {
    const std::int64_t before = mtime_ms(at.path);
    checkpointed(file, {named("a", fmt::format(R"({{"n":{}}})", turn))});
    CHECK(mtime_ms(at.path) != before);
  }
  CHECK_FALSE(polled(file));
}

TEST_CASE("a restart finds what was written, and nothing foreign") {
  for (const bool exchange : {true, false}) {
    StoreFixture at;
    at.exchange = exchange;
    for (int turn = 0; turn < 4; ++turn) {
      SessionsFile file(at.options());
      const LoadReport report = loaded(file);
      CHECK(report.entries.size() == static_cast<std::size_t>(turn));
      CHECK_FALSE(report.changed_while_down);
      CHECK_FALSE(report.foreign);
      CHECK(report.repairs.empty());
      CHECK_FALSE(polled(file));
      checkpointed(file, {named(fmt::format("k{}", turn), "{}")});
    }
  }
}

TEST_CASE("poll: what another program changed, once") {
  StoreFixture at;
  SessionsFile file(at.options());
  loaded(file);
  checkpointed(file, {named("a", R"({"n":1,"updatedAt":5})"), named("b", "{}")});
  CHECK_FALSE(polled(file));
  SUBCASE("by rename") { at.replace(R"({"a":{"n":2,"updatedAt":6},"c":{}})"); }
  SUBCASE("in place") { at.rewrite(R"({"a":{"n":2,"updatedAt":6},"c":{}})"); }
  const auto change = polled(file);
  REQUIRE(change);
  CHECK(keys(change->created) == "c ");
  REQUIRE(change->updated.size() == 1);
  CHECK(change->updated[0].updated_at == 6);
  CHECK(*change->updated[0].base == R"({"n":1,"updatedAt":5})");
  CHECK(change->deleted == std::vector<std::string>{"b"});
  CHECK_FALSE(polled(file));
  // The base is theirs: what we write next keeps it.
  checkpointed(file, {named("d", "{}")});
  CHECK(at.text() == "{\n\"a\": {\"n\":2,\"updatedAt\":6},\n\"c\": {},\n\"d\": {}\n}\n");
}

TEST_CASE("poll: a touched or reformatted file changed nothing, and equal entries stay shared") {
  StoreFixture at;
  at.replace(R"({"a":{"n":1}})");
  SessionsFile file(at.options());
  const LoadReport report = loaded(file);
  at.replace("{ \"a\" : { \"n\" : 1 } }");
  CHECK_FALSE(polled(file));
  at.replace(R"({"a":{"n":1},"b":{}})");
  REQUIRE(polled(file));
  CHECK(report.entries[0].entry.use_count() == 2);
}

TEST_CASE("a checkpoint does not write over what another program wrote") {
  for (const bool exchange : {true, false}) {
    StoreFixture at;
    at.exchange = exchange;
    SessionsFile file(at.options());
    loaded(file);
    checkpointed(file, {named("a", R"({"n":1})")});
    at.replace(R"({"a":{"n":1,"their":1},"t":{}})");
    const auto result = checkpointed(file, {named("a", R"({"n":2})")});
    REQUIRE(result.foreign);
    CHECK(result.foreign->updated.size() == 1);
    CHECK(keys(result.foreign->created) == "t ");
    CHECK(at.text() == R"({"a":{"n":1,"their":1},"t":{}})");
    CHECK_FALSE(checkpointed(file, {named("a", R"({"n":2,"their":1})")}).foreign);
    CHECK(at.text() == "{\n\"a\": {\"n\":2,\"their\":1},\n\"t\": {}\n}\n");
    CHECK(at.names(at.sessions) == std::set<std::string>{"sessions.json"});
  }
}

TEST_CASE("a store that another program makes while we have none is merged, not replaced") {
  StoreFixture at;
  SessionsFile file(at.options());
  loaded(file);
  at.replace(R"({"t":{}})");
  const auto result = checkpointed(file, {named("a", "{}")});
  REQUIRE(result.foreign);
  CHECK(keys(result.foreign->created) == "t ");
  CHECK_FALSE(checkpointed(file, {named("a", "{}")}).foreign);
  CHECK(at.text() == "{\n\"t\": {},\n\"a\": {}\n}\n");
}

TEST_CASE("changes while the daemon was down") {
  StoreFixture at;
  {
    SessionsFile file(at.options());
    loaded(file);
    checkpointed(file, {named("a", R"({"n":1})"), named("b", "{}")});
  }
  SUBCASE("by rename: found entry by entry") {
    at.replace(R"({"a":{"n":2},"c":{}})");
    SessionsFile file(at.options());
    const LoadReport report = loaded(file);
    CHECK(report.changed_while_down);
    REQUIRE(report.foreign);
    CHECK(keys(report.foreign->created) == "c ");
    CHECK(report.foreign->updated.size() == 1);
    CHECK(report.foreign->deleted.size() == 1);
    CHECK(keys(report.entries) == "a c ");
    // It is told again until it has been written by us.
    SessionsFile again(at.options());
    CHECK(loaded(again).foreign);
    checkpointed(again, {named("a", R"({"n":2,"rev":7})")});
    SessionsFile after(at.options());
    CHECK_FALSE(loaded(after).changed_while_down);
  }
  SUBCASE("in place: known, but not what") {
    at.rewrite(R"({"a":{"n":2},"c":{}})");
    SessionsFile file(at.options());
    const LoadReport report = loaded(file);
    CHECK(report.changed_while_down);
    CHECK_FALSE(report.foreign);
    CHECK(keys(report.entries) == "a c ");
  }
  SUBCASE("only another layout") {
    at.replace(R"({"a": {"n" : 1}, "b": {}})");
    SessionsFile file(at.options());
    CHECK_FALSE(loaded(file).changed_while_down);
  }
  SUBCASE("removed") {
    fs::remove(at.path);  // damage, not a deletion of all that it held
    SessionsFile file(at.options());
    const LoadReport report = loaded(file);
    CHECK(keys(report.entries) == "a b ");
    CHECK(report.rebuilt);
    CHECK(report.vanished);
    CHECK_FALSE(report.foreign);
  }
  SUBCASE("without a note the link tells") {
    fs::remove(at.generations / "main.note");
    SessionsFile file(at.options());
    CHECK_FALSE(loaded(file).changed_while_down);
    at.replace("{}");
    SessionsFile other(at.options());
    CHECK(loaded(other).foreign->deleted.size() == 2);
  }
}

TEST_CASE("entries keep their bytes through load and checkpoint") {
  StoreFixture at;
  const std::string odd = R"({"n":12345678901234567890123,"lone":"\ud800","e":1e400,"dup":1,"dup":2})";
  at.replace(fmt::format("\xEF\xBB\xBF{{\n  \"k\": {},\n  \"\\ud83d\": {{}},\n  \"x\": [1]\n}}", odd));
  SessionsFile file(at.options());
  CHECK(loaded(file).repairs.size() == 2);
  checkpointed(file, {named("new", "{}")});
  CHECK(at.text() == fmt::format("{{\n\"k\": {},\n\"\\ud83d\": {{}},\n\"x\": [1],\n\"new\": {{}}\n}}\n", odd));
}

TEST_CASE("nothing works before load, and a second load starts over") {
  StoreFixture at;
  SessionsFile file(at.options());
  CHECK_FALSE(file.poll());
  CHECK_FALSE(file.checkpoint({}));
  loaded(file);
  checkpointed(file, {named("a", "{}")});
  CHECK(keys(loaded(file).entries) == "a ");
  SessionsFile moved = std::move(file);
  checkpointed(moved, {named("b", "{}")});
  CHECK(keys(loaded(moved).entries) == "a b ");
}

TEST_CASE("a lock that is kept keeps others out, and checkpoints go on under it") {
  StoreFixture at;
  SessionsFile file(at.options());
  loaded(file);
  const fs::path lock = at.sessions / "sessions.json.lock";
  REQUIRE(file.hold_if_free());
  CHECK(fs::exists(lock));
  SessionsFile other(at.options());
  loaded(other);
  CHECK(other.hold_if_free().error().code == Code::lock_timeout);
  CHECK(other.checkpoint_if_free({named("b", "{}")}).error().code == Code::lock_timeout);
  CHECK(file.hold_if_free().error().code == Code::lock_timeout);
  REQUIRE(file.checkpoint_if_free({named("a", "{}")}));
  checkpointed(file, {named("a", R"({"n":1})")});
  CHECK(fs::exists(lock));
  file.let_go();
  CHECK_FALSE(fs::exists(lock));
  REQUIRE(other.hold_if_free());
  other.let_go();

  REQUIRE(file.hold_if_free());
  fs::remove(lock);  // a foreign program took it away
  checkpointed(file, {named("a", R"({"n":2})")});
  CHECK_FALSE(fs::exists(lock));
  file.let_go();
}

TEST_CASE("a live foreign lock makes the checkpoint fail and loses nothing") {
  StoreFixture at;
  auto options = at.options();
  options.lock.timeout = std::chrono::milliseconds(20);
  SessionsFile file(options);
  loaded(file);
  checkpointed(file, {named("a", "{}")});
  const std::string before = at.text();
  std::ofstream(at.sessions / "sessions.json.lock") << fmt::format(R"({{"pid":{}}})", ::getpid());
  const auto result = file.checkpoint({named("a", R"({"n":1})")});
  REQUIRE_FALSE(result);
  CHECK(result.error().code == Code::lock_timeout);
  CHECK(at.text() == before);
  CHECK(at.names(at.sessions) == std::set<std::string>{"sessions.json", "sessions.json.lock"});
  fs::remove(at.sessions / "sessions.json.lock");
  checkpointed(file, {named("a", R"({"n":1})")});
  CHECK(at.text() == "{\n\"a\": {\"n\":1}\n}\n");
}
