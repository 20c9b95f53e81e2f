#include "store/sessions/entry_history.hpp"

#include <doctest/doctest.h>

#include "store/sessions/disk.hpp"
#include "tests/unit/store/sessions/store_fixture.hpp"

using namespace sessiond;
using namespace sessiond::sessions;
using namespace sessiond::testing;

namespace {

// A store as versions follow each other: ours by `write`.
struct History {
  EntryHistory history{};
  std::vector<NamedEntry> base{};

  void write(const std::vector<NamedEntry>& changes) {
    history.changed(base, changes);
    apply_changes(base, changes);
  }
};

NamedEntry gone(std::string key) { return {.key = std::move(key), .entry = nullptr}; }

}  // namespace

TEST_CASE("who writes what he read before we wrote has changed only what he changed") {
  History at;
  at.write({named("a", R"({"n":1,"rev":1})"), named("b", R"({"n":1,"rev":2})")});
  const auto read = at.base;
  at.write({named("a", R"({"n":2,"rev":3})")});
  at.write({named("a", R"({"n":3,"rev":4})"), named("b", R"({"n":5,"rev":5})")});
  auto theirs = read;
  SUBCASE("nothing but the old version") {
    const auto change = at.history.diff(at.base, theirs);
    CHECK(change.updated.empty());
    CHECK(change.overwritten == std::vector<std::string>{"a", "b"});
  }
  SUBCASE("a field of an entry that we changed as well") {
    theirs[0] = named("a", R"({"n":1,"rev":1,"x":9})");
    const auto change = at.history.diff(at.base, theirs);
    REQUIRE(change.updated.size() == 1);
    REQUIRE(change.updated[0].edit.set.size() == 1);
    CHECK(change.updated[0].edit.set[0].name == "x");
    CHECK(*change.updated[0].base == R"({"n":1,"rev":1})");
    CHECK(change.overwritten.size() == 2);
  }
  SUBCASE("an entry read at the newest version is compared with that") {
    theirs = at.base;
    theirs[0] = named("a", R"({"n":1,"rev":4})");  // undone on purpose
    const auto change = at.history.diff(at.base, theirs);
    REQUIRE(change.updated.size() == 1);
    CHECK(change.updated[0].edit.set[0].name == "n");
    CHECK(change.overwritten.empty());
  }
}

TEST_CASE("what we made or deleted since he read is neither deleted nor made by him") {
  History at;
  at.write({named("a", R"({"n":1,"rev":1})"), named("d", R"({"sessionId":"s","rev":2})")});
  const auto read = at.base;
  at.write({named("new", R"({"n":1,"rev":3})"), gone("d")});
  SUBCASE("another entry shows how old his version is") {
    const auto change = at.history.diff(at.base, read);
    CHECK(change.deleted.empty());
    CHECK(change.created.empty());
    CHECK(std::set<std::string>(change.overwritten.begin(), change.overwritten.end()) ==
          std::set<std::string>{"d", "new"});
  }
  SUBCASE("nothing shows it: a deletion stands") {
    const std::vector<NamedEntry> theirs{read[0]};
    CHECK(at.history.diff(at.base, theirs).deleted == std::vector<std::string>{"new"});
  }
  SUBCASE("a lock that was lost before we wrote tells") {
    EntryHistory history;
    history.distrust();
    history.changed(read, {named("new", R"({"n":1})")});
    const auto change = history.diff({read[0], named("new", R"({"n":1})")}, {read[0]});
    CHECK(change.deleted.empty());
    CHECK(change.overwritten == std::vector<std::string>{"new"});
  }
  SUBCASE("a session of the same key that he made himself is his") {
    auto theirs = at.base;
    theirs.push_back(named("d", R"({"sessionId":"another","rev":2})"));
    const auto change = at.history.diff(at.base, theirs);
    REQUIRE(change.created.size() == 1);
    CHECK(change.created[0].key == "d");
  }
}

TEST_CASE("it is bounded, and what it has forgotten is compared with the newest version") {
  History at;
  at.write({named("a", R"({"n":0})")});
  const auto read = at.base;
  const std::string big(1 << 20, 'x');
  for (int n = 1; n < 40; ++n) at.write({named("a", R"({"n":)" + std::to_string(n) + R"(,"x":")" + big + "\"}")});
  const auto change = at.history.diff(at.base, read);
  REQUIRE(change.updated.size() == 1);
  CHECK(*change.updated[0].base == *at.base[0].entry);
}

TEST_CASE("what is left of a store that left memory still tells who writes what he read long before") {
  const StoreFixture at;
  auto options = at.options();
  {
    SessionsFile file(options);
    loaded(file);
    checkpointed(file, {named("a", R"({"n":1,"rev":1})"), named("gone", R"({"sessionId":"s","rev":2})")});
    checkpointed(file, {named("a", R"({"n":2,"rev":3})"), gone("gone"), named("new", R"({"n":1,"rev":4})")});
    options.history = file.history();
  }
  at.replace(R"({"a":{"n":1,"rev":1,"x":9},"gone":{"sessionId":"s","rev":2}})");
  SessionsFile file(options);
  const LoadReport report = loaded(file);
  REQUIRE(report.foreign);
  const ForeignChange& change = *report.foreign;
  CHECK(std::set<std::string>(change.overwritten.begin(), change.overwritten.end()) ==
        std::set<std::string>{"a", "gone", "new"});
  CHECK(change.created.empty());
  CHECK(change.deleted.empty());
  REQUIRE(change.updated.size() == 1);
  REQUIRE(change.updated[0].edit.set.size() == 1);
  CHECK(change.updated[0].edit.set[0].name == "x");
  CHECK(keys(report.entries) == "a new ");
  CHECK(*report.entries[0].entry == R"({"n":2,"rev":3})");
}
