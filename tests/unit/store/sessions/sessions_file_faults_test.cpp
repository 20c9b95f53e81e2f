// Damage, killed checkpoints, full disks.
#include <doctest/doctest.h>
#include <sys/resource.h>

#include "tests/unit/store/child.hpp"
#include "tests/unit/store/sessions/store_fixture.hpp"
#include "tests/unit/store/stepped_child.hpp"

using namespace sessiond;
using namespace sessiond::sessions;
using namespace sessiond::testing;
namespace fs = std::filesystem;

namespace {

const std::vector<std::string> damages = {
    "", std::string(512, '\0'), "[]", "{\"a\":{\"n\":", "{\"a\":{}}{}", "null", "garbage"};

}  // namespace

TEST_CASE("a damaged store is put aside and rebuilt from the last generation") {
  for (const bool exchange : {true, false}) {
    for (const std::string& damage : damages) {
      CAPTURE(damage);
      StoreFixture at(TempDir::On::memory);
      at.exchange = exchange;
      {
        SessionsFile file(at.options());
        loaded(file);
        checkpointed(file, {named("a", R"({"n":1})")});
        checkpointed(file, {named("a", R"({"n":2})"), named("b", "{}")});
      }
      std::string rebuilt_keys;
      SUBCASE("replaced: the link has our last one") {
        at.replace(damage);
        rebuilt_keys = "a b ";
      }
      SUBCASE("in place: the one before the last") {
        at.rewrite(damage);
        rebuilt_keys = "a ";
      }
      SessionsFile file(at.options());
      const LoadReport report = loaded(file);
      CHECK(report.rebuilt);
      CHECK(keys(report.entries) == rebuilt_keys);
      CHECK(report.repairs.size() == 1);
      CHECK(at.text() == damage);  // until the journal has gone over what we last knew
      checkpointed(file, {});
      CHECK(file.take_repairs().size() == 1);
      const std::string aside = at.the_file("sessions.json.corrupt.");
      REQUIRE_FALSE(aside.empty());
      CHECK_FALSE(aside.contains(':'));
      CHECK(*store::read_file(at.sessions / aside) == damage);
      // The good one is in its place at once: another start needs nothing.
      SessionsFile again(at.options());
      const LoadReport second = loaded(again);
      CHECK_FALSE(second.rebuilt);
      CHECK_FALSE(second.changed_while_down);
      CHECK(keys(second.entries) == rebuilt_keys);
      checkpointed(again, {named("c", "{}")});
      CHECK(at.names(at.sessions) == std::set<std::string>{"sessions.json", aside});
    }
  }
}

TEST_CASE("a damaged store of which nothing else is known begins empty, and is kept") {
  StoreFixture at;
  at.replace("{\"a\":{}");
  SessionsFile file(at.options());
  const LoadReport report = loaded(file);
  CHECK(report.rebuilt);
  CHECK(report.entries.empty());
  checkpointed(file, {});
  CHECK(*store::read_file(at.sessions / at.the_file("sessions.json.corrupt.")) == "{\"a\":{}");
}

TEST_CASE("a damaged previous generation is not taken") {
  StoreFixture at;
  {
    SessionsFile file(at.options());
    loaded(file);
    checkpointed(file, {named("a", "{}")});
    checkpointed(file, {named("b", "{}")});
  }
  REQUIRE(store::replace_file(at.previous, "[]"));
  at.rewrite("");
  SessionsFile file(at.options());
  CHECK(loaded(file).entries.empty());
}

TEST_CASE("damage while we run: never read as empty, never written over, made good with what we hold") {
  for (const std::string& damage : damages) {
    CAPTURE(damage);
    StoreFixture at(TempDir::On::memory);
    SessionsFile file(at.options());
    loaded(file);
    checkpointed(file, {named("a", R"({"n":1})")});
    at.replace(damage);
    std::string expected = "{\n\"a\": {\"n\":1}\n}\n";
    SUBCASE("found by poll, which waits a turn for a writer that may be about to finish") {
      CHECK_FALSE(polled(file));
      CHECK(at.text() == damage);
      CHECK_FALSE(polled(file));
    }
    SUBCASE("found by a checkpoint") {
      CHECK_FALSE(checkpointed(file, {named("b", "{}")}).foreign);
      expected = "{\n\"a\": {\"n\":1},\n\"b\": {}\n}\n";
    }
    CHECK(at.text() == expected);
    CHECK(file.take_repairs().size() == 1);
    CHECK(file.take_repairs().empty());
    CHECK(*store::read_file(at.sessions / at.the_file("sessions.json.corrupt.")) == damage);
    CHECK_FALSE(polled(file));
  }
}

TEST_CASE("a writer in place that is only half done is waited for") {
  StoreFixture at;
  SessionsFile file(at.options());
  loaded(file);
  checkpointed(file, {named("a", "{}")});
  at.rewrite("{\"a\":{},");
  CHECK_FALSE(polled(file));
  at.rewrite("{\"a\":{},\"t\":{}}");
  const auto change = polled(file);
  REQUIRE(change);
  CHECK(keys(change->created) == "t ");
  CHECK(at.the_file("sessions.json.corrupt.").empty());
}

TEST_CASE("a store that vanishes while we run is written again") {
  StoreFixture at;
  SessionsFile file(at.options());
  loaded(file);
  checkpointed(file, {named("a", "{}")});
  SUBCASE("the file") { fs::remove(at.path); }
  SUBCASE("the whole folder") { fs::remove_all(at.dir / "agents"); }
  CHECK_FALSE(polled(file));
  CHECK_FALSE(polled(file));
  CHECK(at.text() == "{\n\"a\": {}\n}\n");
  CHECK(file.take_repairs().size() == 1);
}

TEST_CASE("two damages in one millisecond get two names") {
  StoreFixture at(TempDir::On::memory);
  SessionsFile file(at.options());
  loaded(file);
  for (int turn = 0; turn < 5; ++turn) {
    at.replace(fmt::format("damage {}", turn));
    checkpointed(file, {});
  }
  std::set<std::string> contents;
  for (const std::string& name : at.names(at.sessions)) contents.insert(*store::read_file(at.sessions / name));
  CHECK(contents.size() == 6);
}

TEST_CASE("a full disk: the old store stays, no temp file is left, the next try writes all") {
  StoreFixture at;
  {
    SessionsFile file(at.options());
    loaded(file);
    checkpointed(file, {named("a", "{}")});
  }
  const std::string before = at.text();
  Child child([&] {
    SessionsFile file(at.options());
    if (!file.load()) return 1;
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{.rlim_cur = 4000, .rlim_max = RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &small);
    const std::vector<NamedEntry> changes{named("big", fmt::format(R"({{"x":"{}"}})", std::string(100'000, 'x')))};
    if (file.checkpoint(changes)) return 2;
    if (at.text() != before) return 3;
    if (at.names(at.sessions).size() != 1) return 4;
    const rlimit large{.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &large);
    return file.checkpoint(changes) ? 0 : 5;
  });
  CHECK(child.wait() == 0);
  CHECK(at.text().size() > 100'000);
}

TEST_CASE("no way to write: a problem, and what we hold stays") {
  StoreFixture at;
  SessionsFile file(at.options());
  loaded(file);
  checkpointed(file, {named("a", "{}")});
  fs::remove_all(at.generations);
  REQUIRE(store::replace_file(at.generations, "a file where a directory should be"));
  CHECK_FALSE(file.checkpoint({named("b", "{}")}));
  CHECK(at.names(at.sessions) == std::set<std::string>{"sessions.json"});
  fs::remove(at.generations);
  checkpointed(file, {named("b", "{}")});
  CHECK(at.text() == "{\n\"a\": {},\n\"b\": {}\n}\n");
}

TEST_CASE(
    "killed before any system call of a checkpoint: the old generation or the new one, nothing foreign, nothing left") {
  for (const bool exchange : {true, false}) {
    const std::string old_text = "{\n\"a\": {\"n\":1}\n}\n";
    const std::string new_text = "{\n\"a\": {\"n\":2},\n\"b\": {}\n}\n";
    bool reached = true;
    bool seen_old = false;
    bool seen_new = false;
    for (int stop = 1; reached; ++stop) {
      StoreFixture at(TempDir::On::memory);
      at.exchange = exchange;
      {
        SessionsFile file(at.options());
        loaded(file);
        checkpointed(file, {named("a", R"({"n":1})")});
      }
      SteppedChild child([&] {
        SessionsFile file(at.options());
        if (!file.load()) return 1;
        return file.checkpoint({named("a", R"({"n":2})"), named("b", "{}")}) ? 0 : 2;
      });
      reached = child.advance(stop);
      if (reached) child.kill();
      CAPTURE(stop);
      CAPTURE(exchange);
      SessionsFile file(at.options());
      const LoadReport report = loaded(file);
      const std::string text = at.text();
      CHECK((text == old_text || text == new_text));
      seen_old = seen_old || text == old_text;
      seen_new = seen_new || text == new_text;
      CHECK_FALSE(report.changed_while_down);
      CHECK_FALSE(report.foreign);
      CHECK_FALSE(report.rebuilt);
      CHECK(report.repairs.empty());
      checkpointed(file, {named("c", "{}")});
      std::set<std::string> left = at.names(at.sessions);
      std::erase_if(left, [](const std::string& name) { return name.starts_with("sessions.json.lock."); });
      CHECK(left == std::set<std::string>{"sessions.json"});
      CHECK(*store::read_file(at.previous) == text);
    }
    CHECK(seen_old);
    CHECK(seen_new);
  }
}

TEST_CASE("killed while a damaged store is rebuilt: the damage stands or all of it, and the original is kept") {
  bool reached = true;
  for (int stop = 1; reached; ++stop) {
    StoreFixture at(TempDir::On::memory);
    {
      SessionsFile file(at.options());
      loaded(file);
      checkpointed(file, {named("a", "{}")});
      checkpointed(file, {named("b", "{}")});
    }
    at.replace("damage");
    SteppedChild child([&] {
      SessionsFile file(at.options());
      if (!file.load()) return 1;
      return file.checkpoint({named("journal", "{}")}) ? 0 : 2;
    });
    reached = child.advance(stop);
    if (reached) child.kill();
    CAPTURE(stop);
    SessionsFile file(at.options());
    const LoadReport report = loaded(file);
    CHECK(report.rebuilt == (at.text() == "damage"));
    CHECK(keys(report.entries) == (report.rebuilt ? "a b " : "a b journal "));
    CHECK_FALSE(report.foreign);
    checkpointed(file, {named("journal", "{}")});
    CHECK(at.text() == "{\n\"a\": {},\n\"b\": {},\n\"journal\": {}\n}\n");
    CHECK(*store::read_file(at.sessions / at.the_file("sessions.json.corrupt.")) == "damage");
    CHECK_FALSE(*store::read_file(at.previous) == "damage");
  }
}
