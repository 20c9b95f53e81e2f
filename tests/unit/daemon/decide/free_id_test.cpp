#include "daemon/decide/free_id.hpp"

#include <set>

#include "tests/unit/daemon/decide/world.hpp"

using namespace sessiond;
using namespace sessiond::decide;

TEST_CASE("ids are the bytes of their source, each byte used once") {
  std::size_t asked = 0;
  IdSource ids([&asked](std::span<unsigned char> into) {
    for (unsigned char& byte : into) byte = static_cast<unsigned char>(asked++);
  });
  CHECK(ids.entry_id() == "0706050403020100");
  CHECK(ids.uuid() == "0f0e0d0c-0b0a-4908-9716-151413121110");
  CHECK(ids.entry_id() == "1f1e1d1c1b1a1918");
  std::set<std::string> seen;
  IdSource secure = IdSource::secure();
  IdSource other = IdSource::secure();
  for (int n = 0; n < 10'000; ++n) {
    CHECK(seen.insert(secure.entry_id()).second);
    CHECK(seen.insert(other.uuid()).second);
  }
}

TEST_CASE("timestamp ids of one millisecond are different, and of a clock that steps back") {
  IdSource ids = counted_ids();
  std::set<std::string> seen;
  constexpr int of_one_moment = 70'000;  // more than there are of one millisecond
  for (int n = 0; n < of_one_moment; ++n) CHECK(seen.insert(ids.timestamp_id(1'795'298'400'000)).second);
  for (int n = 0; n < 1'200; ++n) CHECK(seen.insert(ids.timestamp_id(1'795'298'399'000 + n)).second);
}

TEST_CASE("an id that something bears is drawn again") {
  World world;
  // Every byte is the same until the source is told to go on.
  unsigned char byte = 1;
  int draws = 0;
  world.ids = IdSource([&](std::span<unsigned char> into) {
    std::ranges::fill(into, byte);
    if (++draws % 2 == 0) ++byte;
  });
  const std::string first = world.ids.uuid();
  world.store(main_key, "{\"sessionId\":\"" + first + "\"}");
  world.run(CreateSession{.key = "k"});
  CHECK(world.session("agent:main:k").session_id != first);
}

TEST_CASE("who may take an id that only files bear") {
  World world;
  world.on_disk["lies"] = {.transcripts = true};
  world.on_disk["old"] = {.archives = {"old.jsonl.deleted.2026-02-21T21-31-50.885Z"}};
  const auto takes = [&world](std::string_view id, std::string_view key = "agent:main:new") {
    const auto decided = world.ask(CreateSession{.key = std::string(key), .session_id = std::string(id)});
    if (!decided) {
      CHECK(decided.error().code == Code::session_exists);
      CHECK(decided.error().detail == "the session id " + std::string(id) + " is taken");
    }
    return decided.has_value();
  };
  CHECK(takes("lies"));
  CHECK(takes("old"));
  world.sight = {.whole_agent = false,
                 .sees = [](std::string_view key, std::string_view) { return key.starts_with("agent:main:guest:"); }};
  CHECK_FALSE(takes("lies"));
  CHECK_FALSE(takes("old"));  // nobody knows whose it was
  world.state.archives.add({.seq = 3,
                            .time = 1,
                            .key = "agent:main:guest:a",
                            .session_id = "old",
                            .archived_as = {"old.jsonl.deleted.2026-02-21T21-31-50.885Z"}});
  CHECK(takes("old"));
  world.state.archives.add({.seq = 4, .time = 2, .key = "agent:main:owner", .session_id = "old", .archived_as = {"x"}});
  CHECK_FALSE(takes("old"));  // not all of it is the guest's
  CHECK(takes("free"));
  // A purge is known for as long as the journal has it.
  world.state.archives.add({.seq = 5, .time = 3, .key = "agent:main:guest:a", .session_id = "purged", .purged = true});
  CHECK_FALSE(takes("purged"));
  CHECK(takes("purged", "agent:main:guest:a"));  // under the key that it had
  world.state.archives.add({.seq = 6, .time = 4, .key = "agent:main:owner", .session_id = "theirs", .purged = true});
  CHECK_FALSE(takes("theirs", "agent:main:owner"));  // the guest does not see that key
  world.on_disk["purged"] = {.changes = true};       // which copies of its messages are shown by
  CHECK_FALSE(takes("purged", "agent:main:guest:a"));
  world.on_disk.erase("purged");
  world.oldest_seq = 7;
  CHECK(takes("purged"));
}

TEST_CASE("an SDK session id has one session, in all agents") {
  World world;
  world.store("agent:main:one", R"({"sessionId":"1","claudeCliSessionId":"a"})");
  world.store("agent:main:two", R"({"sessionId":"2"})");
  const auto patch = [&world](std::string_view key, std::string_view change) {
    return world.ask(PatchSession{.target = {.key = std::string(key)}, .patch = std::string(change)});
  };
  const auto taken = patch("agent:main:two", R"({"sdkSessionId":"a"})");
  REQUIRE_FALSE(taken);
  CHECK(taken.error().code == Code::sdk_session_taken);
  CHECK_FALSE(taken.error().detail.contains("one"));
  CHECK_FALSE(patch("agent:main:two", R"({"cliSessionIds":{"x":"a"}})"));
  CHECK(patch("agent:main:one", R"({"sdkSessionId":"a"})"));
  CHECK(patch("agent:main:two", R"({"sdkSessionId":"b"})"));
  CHECK_FALSE(world.ask(CreateSession{.key = "new", .entry = edit_of(R"({"sdkSessionId":"a"})")}));
  // A double that a foreign program wrote stays; only what takes the id is refused.
  world.store("agent:main:two", R"({"sessionId":"2","sdkSessionId":"a"})");
  CHECK(of_sdk_session(world.state, "a").size() == 2);
  CHECK(patch("agent:main:two", R"({"sdkSessionId":"a","label":"x"})"));
  CHECK(sdk_hashes(world.state).size() == 2);
}

TEST_CASE("what a listing found of an archive is its record's") {
  AgentState state("main");
  const std::string name = "a.jsonl.deleted.2026-02-21T21-31-50.885Z";
  state.archives.add({.time = 9, .session_id = "a", .archived_as = {name}});
  state.archives.add(
      {.time = 9, .session_id = "a", .archived_as = {"a-topic-t.jsonl.deleted.2026-02-21T21-31-50.885Z"}});
  REQUIRE(state.archives.of_id("a").size() == 1);
  CHECK(state.archives.of_id("a")[0]->archived_as.size() == 2);
  state.archives.add({.seq = 7, .time = 8, .key = main_key, .session_id = "a", .archived_as = {name}});
  state.archives.add({.seq = 7, .time = 8, .key = main_key, .session_id = "a", .archived_as = {name}});
  REQUIRE(state.archives.of_id("a").size() == 1);
  CHECK(state.archives.of_key(main_key).size() == 1);
  CHECK(state.archives.all().size() == 1);
}
