#include "daemon/decide/foreign.hpp"

#include <utility>

#include "tests/unit/daemon/decide/world.hpp"

using namespace sessiond;
using namespace sessiond::decide;

namespace {

sessions::ForeignChange::Changed changed(std::string_view base, std::string_view theirs, std::string key = "k") {
  return {.key = std::move(key), .edit = {}, .base = raw(base), .theirs = raw(theirs)};
}

Decision take(World& world, const sessions::ForeignChange& change, bool at_load = false) {
  const Context context = world.context("external");
  return world.commit(decide_foreign_change(world.state, change, context, at_load));
}

}  // namespace

TEST_CASE("created elsewhere") {
  World world;
  sessions::ForeignChange change;
  change.created = {{"Odd Key", raw(R"({"sessionId":"x","rev":99,"n":1e400,"createdAt":7})")},
                    {"no object", raw("[]")},
                    {"null", {}}};
  const Decision done = take(world, change);
  REQUIRE(done.events.size() == 2);
  CHECK(at(done.events[0].data, "reason") == "\"external\"");
  CHECK(done.events[0].envelope.source == "external");
  CHECK(done.events[1].envelope.type == journal::EventType::store_external_change);
  CHECK(done.events[1].envelope.key.empty());
  CHECK(at(done.events[1].data, "changed") == R"(["Odd Key"])");
  CHECK(at(done.events[1].data, "resync") == "true");
  CHECK(*world.session("Odd Key").entry() == R"({"sessionId":"x","rev":1,"n":1e400,"createdAt":7})");  // rev is ours
  CHECK(world.state.size() == 1);
}

TEST_CASE("created elsewhere without saying when: chosen once") {
  World world;
  sessions::ForeignChange change;
  change.created = {{"a", raw(R"({"sessionId":"a","updatedAt":5})")},
                    {"b", raw(R"({"sessionId":"b","updatedAt":5,"sessionStartedAt":3})")},
                    {"c", raw(R"({"sessionId":"c"})")}};
  take(world, change);
  CHECK(world.field("a", "createdAt") == "5");
  CHECK(world.field("b", "createdAt") == "-");
  CHECK(world.session("b").created_at == 3);
  CHECK(world.session("c").created_at == world.now);
}

TEST_CASE("created elsewhere and here: merged; the same: nothing") {
  World world;
  world.store("k", R"({"sessionId":"x","updatedAt":5,"a":1})");
  sessions::ForeignChange change;
  change.created = {{"k", raw(R"({"sessionId":"x","updatedAt":9,"b":2})")}};
  const Decision done = take(world, change);
  CHECK(done.events.at(0).envelope.type == journal::EventType::session_updated);
  CHECK(world.field("k", "a") == "1");
  CHECK(world.field("k", "b") == "2");
  change.created = {{"k", raw(R"({"sessionId":"x","a":1})")}};
  CHECK(take(world, change).events.empty());
  change.created = {{"K", raw(R"({"sessionId":"y"})")}};  // keys are exact here
  CHECK(take(world, change).events.at(0).envelope.type == journal::EventType::session_created);
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
    sessions::ForeignChange change;
    change.updated = {changed(one.base, one.theirs)};
    const Decision done = take(world, change);
    CHECK(json::apply(*world.session("k").entry(), {.set = {}, .unset = {"rev"}}) == one.after);
    CHECK(done.events.size() == (one.ours == one.after ? 0 : 2));
  }
}

TEST_CASE("a new session id is their reset") {
  World world;
  world.store("k", R"({"sessionId":"old","a":1})");
  world.state.transcripts.add_topic("old", "t");
  sessions::ForeignChange change;
  change.updated = {changed(R"({"sessionId":"old","a":1})", R"({"sessionId":"new","a":1})")};
  const Decision done = take(world, change);
  REQUIRE(done.events.size() == 2);
  CHECK(done.events[0].envelope.type == journal::EventType::session_reset);
  CHECK(done.events[0].envelope.session_id == "new");
  CHECK(at(done.events[0].data, "previousSessionId") == "\"old\"");
  CHECK(at(done.events[0].data, "archivedAs") == "[]");
  CHECK(world.session("new").key() == "k");
  CHECK(world.state.transcripts.topics("old") != nullptr);  // their files stay, and go with a purge of the id
}

TEST_CASE("what we deleted stays deleted") {
  World world;
  sessions::ForeignChange change;
  change.updated = {changed(R"({"a":1})", R"({"a":2})")};
  CHECK(take(world, change).events.empty());
  CHECK(world.state.size() == 0);
}

TEST_CASE("a deletion stands though a foreign change of the entry is still to be written") {
  World world;
  world.store("k", R"({"sessionId":"s","a":1})");
  sessions::ForeignChange first;
  first.updated = {changed(R"({"sessionId":"s","a":1})", R"({"sessionId":"s","a":2})")};
  take(world, first);
  CHECK(world.state.dirty.contains("k"));  // our rev goes into it
  CHECK_FALSE(world.state.changed_by_us.contains("k"));
  sessions::ForeignChange then;
  then.deleted = {"k"};
  CHECK(take(world, then).events.size() == 2);
  CHECK(world.state.size() == 0);
}

TEST_CASE("deleted elsewhere") {
  for (const bool at_load : {false, true}) {
    World world;
    world.store("k", R"({"sessionId":"s"})");
    sessions::ForeignChange change;
    change.deleted = {"k"};
    const Decision done = take(world, change, at_load);
    REQUIRE(done.events.size() == 2);
    CHECK(done.events[0].envelope.type == journal::EventType::session_deleted);
    CHECK(done.events[0].envelope.session_id == "s");
    CHECK(at(done.events[0].data, "archivedAs") == "[]");
    CHECK(world.state.size() == 0);

    World kept;  // we hold a change that they have not seen
    kept.store("k", R"({"sessionId":"s"})");
    kept.state.dirty.insert("k");
    kept.state.changed_by_us.insert("k");
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
  sessions::ForeignChange change;
  change.created = {{"c", raw("{}")}};
  change.updated = {changed(R"({"x":1})", R"({"x":2})", "a")};
  change.deleted = {"b"};
  const Decision done = take(world, change);
  CHECK(done.events.size() == 4);
  CHECK(at(done.events.back().data, "changed") == R"(["c","a","b"])");
  CHECK(take(world, {}).events.empty());
}

namespace {

ForeignLines lines_of(std::vector<std::string> lines, std::uint64_t first = 0, std::uint64_t begin = 0) {
  ForeignLines theirs{.file = "s.jsonl", .inode = 7, .size = 0, .begin = begin};
  std::uint64_t end = begin;
  for (std::string& line : lines) {
    end += line.size() + 1;
    theirs.lines.push_back({.stored = {.seq = first++, .line = std::move(line)}, .end = end});
  }
  theirs.size = end;
  return theirs;
}

// Committed without its line positions, which are not of our lines.
Decision take(World& world, const ForeignLines& theirs) {
  Decision made =
      decide_foreign_lines(world.state, *world.state.owner_of(theirs.file), theirs, world.context("external"));
  const auto positions = std::exchange(made.line_positions, {});
  made = world.commit(std::move(made));
  made.line_positions = positions;
  return made;
}

}  // namespace

TEST_CASE("lines of another program: published, counted, their tokens left to them") {
  World world;
  world.store("k", R"({"sessionId":"s","updatedAt":5,"messageCount":4,"inputTokens":1})");
  const Decision done = take(
      world, lines_of({R"({"type":"message","id":"a","parentId":null,"timestamp":"2026-01-01T00:00:00.000Z","message":)"
                       R"({"role":"assistant","content":"x","usage":{"input":9,"output":9}}})",
                       "garbage", "{\"role\":\"user\",\r\"content\":[ 1 ]}"},
                      4, 100));
  REQUIRE(done.events.size() == 3);
  for (const journal::Event& event : done.events) {
    CHECK(event.envelope.type == journal::EventType::message_appended);
    CHECK(event.envelope.source == "external");
    CHECK(event.json->find('\r') == std::string::npos);
  }
  CHECK(at(at(done.events[0].data, "message"), "seq") == "4");
  CHECK(at(at(done.events[0].data, "message"), "id") == "\"a\"");
  CHECK(at(at(done.events[0].data, "set"), "updatedAt") == "1767225600000");  // the line's own time
  CHECK(at(at(done.events[1].data, "message"), "type") == "\"unreadable\"");
  CHECK(at(at(done.events[2].data, "set"), "messageCount") == "7");
  CHECK(at(at(done.events[2].data, "set"), "updatedAt") == std::to_string(world.now));  // it has none
  CHECK(world.field("k", "inputTokens") == "1");
  REQUIRE(done.line_positions.size() == 1);
  CHECK(done.line_positions[0].at == 100);
  CHECK(done.line_positions[0].inode == 7);
  CHECK(done.line_positions[0].seq == 1);
  CHECK(done.line_positions[0].line.empty());
}

TEST_CASE("lines of another program: a time to come moves nothing there") {
  World world;
  world.store("k", R"({"sessionId":"s"})");
  take(world, lines_of({R"({"type":"x","timestamp":"2100-01-01T00:00:00.000Z"})"}));
  CHECK(world.field("k", "updatedAt") == std::to_string(world.now));
  CHECK(world.field("k", "messageCount") == "1");
}

TEST_CASE("a transcript that was rewritten: told, its lines are not") {
  World world;
  world.store("k", R"({"sessionId":"s"})");
  const Decision done = take(world, {.file = "s.jsonl", .inode = 8, .size = 50});
  REQUIRE(done.events.size() == 1);
  CHECK(done.events[0].envelope.type == journal::EventType::store_external_change);
  CHECK(at(done.events[0].data, "changed") == R"(["k"])");
  CHECK_FALSE(done.line_positions.at(0).at);
  CHECK(done.line_positions[0].length == 50);
}

TEST_CASE("whose transcript a file is") {
  World world;
  world.store("k", R"({"sessionId":"s"})");
  world.store("agent:main:telegram:group:1:topic:7", R"({"sessionId":"t"})");
  world.store("named", R"({"sessionId":"n","sessionFile":"/elsewhere/other.jsonl"})");
  const auto owner = [&](std::string_view file) -> std::string {
    const auto found = world.state.owner_of(file);
    return found ? found->session->key() + (found->topic ? "#" + *found->topic : "") : "nobody";
  };
  world.store("agent:main:slack:channel:c:thread:9", R"({"sessionId":"h","sessionFile":"h-topic-9.jsonl"})");
  CHECK(owner("h-topic-9.jsonl") == "agent:main:slack:channel:c:thread:9");
  CHECK(owner("h-topic-8.jsonl") == "agent:main:slack:channel:c:thread:9#8");
  CHECK(owner("h.jsonl") == "nobody");
  CHECK(owner("s.jsonl") == "k");
  CHECK(owner("s-topic-a%20b.jsonl") == "k#a b");
  CHECK(owner("t-topic-7.jsonl") == "agent:main:telegram:group:1:topic:7");
  CHECK(owner("t-topic-8.jsonl") == "agent:main:telegram:group:1:topic:7#8");
  CHECK(owner("other.jsonl") == "named");
  CHECK(owner("n.jsonl") == "nobody");
  CHECK(owner("t.jsonl") == "nobody");
  CHECK(owner("x.jsonl") == "nobody");
  CHECK(owner(".jsonl") == "nobody");
  world.store("named", R"({"sessionId":"n","sessionFile":"moved.jsonl"})");
  world.store("second", R"({"sessionId":"m","sessionFile":"/a/moved.jsonl"})");
  CHECK(owner("other.jsonl") == "nobody");
  CHECK(owner("moved.jsonl") == "named");
  world.state.edit(*world.state.mutable_session("named"), edit_of(R"({"sessionFile":"again.jsonl"})"));
  CHECK(owner("moved.jsonl") == "second");
  CHECK(owner("again.jsonl") == "named");
  world.state.erase(world.session("named"));
  CHECK(owner("again.jsonl") == "nobody");
}

namespace {

// A load that lost its note finds this: the last generation, taken for a foreign program's work on the one before.
struct LostNote {
  World live;
  World after;  // the power cut
  std::optional<sessions::ForeignChange> change;
  std::size_t replayed_from = 0;
  std::vector<sessions::NamedEntry> before;

  std::vector<sessions::NamedEntry> entries() const {
    std::vector<sessions::NamedEntry> all;
    for (const auto& [key, session] : live.state.by_name()) all.push_back({std::string(key), session->entry()});
    return all;
  }
  void previous_generation() {
    before = entries();
    replayed_from = live.log.size();
  }
  void last_generation() { change = sessions::diff_stores(before, entries()); }

  Decision load() {
    for (const sessions::NamedEntry& entry : before) {
      if (std::ranges::find(change->deleted, entry.key) == change->deleted.end()) after.store(entry.key, *entry.entry);
    }
    OwnVersions own(change);
    for (std::size_t index = replayed_from; index < live.log.size(); ++index) {
      auto event = journal::parse_event(live.log[index]);
      REQUIRE(event);
      const Change change = decode(*std::move(event));
      apply(after.state, change, Replay::yes);
      own.applied(after.state, change);
    }
    after.next_seq = live.next_seq;
    own.remove_own(change);
    return change ? take(after, *change, true) : Decision{};
  }
};

}  // namespace

TEST_CASE("our own last generation is not another program's, whatever we did after it") {
  LostNote lost;
  lost.live.run(CreateSession{.key = "agent:main:old", .entry = edit_of(R"({"x":0})")});
  lost.live.run(CreateSession{.key = "agent:main:gone"});
  lost.previous_generation();
  lost.live.run(CreateSession{.key = "agent:main:new"});
  lost.live.run(PatchSession{.target = {.key = "agent:main:old"}, .patch = R"({"x":1})"});
  lost.live.run(DeleteSession{.target = {.key = "agent:main:gone"}});
  lost.last_generation();
  lost.live.run(DeleteSession{.target = {.key = "agent:main:new"}});
  lost.live.run(PatchSession{.target = {.key = "agent:main:old"}, .patch = R"({"x":0})"});
  CHECK(lost.load().events.empty());
  CHECK(picture(lost.after.state) == picture(lost.live.state));
}

TEST_CASE("what another program changed in our last generation is theirs, and only that") {
  LostNote lost;
  lost.live.run(CreateSession{.key = "agent:main:old", .entry = edit_of(R"({"x":0,"y":0})")});
  lost.previous_generation();
  lost.live.run(PatchSession{.target = {.key = "agent:main:old"}, .patch = R"({"x":1})"});
  lost.live.run(CreateSession{.key = "agent:main:new"});
  lost.last_generation();
  for (auto& entry : lost.change->updated) entry.theirs = raw(json::apply(*entry.theirs, edit_of(R"({"y":5})")));
  lost.change->created.at(0).entry = raw(json::apply(*lost.change->created[0].entry, edit_of(R"({"z":7})")));
  lost.live.run(PatchSession{.target = {.key = "agent:main:old"}, .patch = R"({"x":0})"});
  const Decision done = lost.load();
  CHECK(done.events.size() == 3);  // two changes, and what tells of them
  CHECK(lost.after.field("agent:main:old", "x") == "0");
  CHECK(lost.after.field("agent:main:old", "y") == "5");
  CHECK(lost.after.field("agent:main:new", "z") == "7");
}

TEST_CASE("a large change is taken in slices, each entry once and in order") {
  World world;
  world.store("old", R"({"sessionId":"o","updatedAt":1})");
  world.store("gone", R"({"sessionId":"g","updatedAt":1})");
  sessions::ForeignChange change;
  std::vector<std::string> keys;
  for (int n = 0; n < 600; ++n) {
    keys.push_back("k" + std::to_string(n));
    change.created.push_back({keys.back(), raw(R"({"sessionId":"s)" + std::to_string(n) + R"(","updatedAt":5})")});
  }
  change.updated = {changed(R"({"sessionId":"o","updatedAt":1})", R"({"sessionId":"o","updatedAt":7,"n":1})", "old")};
  change.deleted = {"gone"};
  std::vector<std::string> told;
  int slices = 0;
  ForeignSlices rest(change);
  do {
    const Decision done = take(world, rest.next());
    ++slices;
    CHECK(done.events.size() <= 257);
    REQUIRE(done.events.back().envelope.type == journal::EventType::store_external_change);
    for (const std::string_view key : json::elements(at(done.events.back().data, "changed")))
      told.push_back(json::as_string(key).value_or(""));
  } while (!rest.done());
  CHECK(slices == 3);
  keys.insert(keys.end(), {"old", "gone"});
  CHECK(told == keys);
  CHECK(world.state.size() == 601);
  CHECK(world.field("old", "n") == "1");

  sessions::ForeignChange nothing;
  ForeignSlices none(nothing);
  CHECK(none.next().empty());
  CHECK(none.done());
}

TEST_CASE("messages after the last event that moved rev are ours as well") {
  LostNote lost;
  lost.live.run(CreateSession{.key = "agent:main:old", .entry = edit_of(R"({"x":0})")});
  lost.previous_generation();
  lost.live.run(PatchSession{.target = {.key = "agent:main:old"}, .patch = R"({"x":1})"});
  const auto message = [&] {
    lost.live.now += 1000;
    AppendMessages command{.target = {.key = "agent:main:old"}};
    command.append.entries.push_back(*transcripts::parse_entry(R"({"role":"user","text":"hello"})", ""));
    lost.live.run(command);
  };
  message();
  message();
  lost.last_generation();
  message();
  SUBCASE("nothing was theirs") { CHECK(lost.load().events.empty()); }
  SUBCASE("a field of theirs, and a copy of the entry under another key") {
    auto& updated = lost.change->updated.at(0);
    updated.theirs = raw(json::apply(*updated.theirs, edit_of(R"({"y":5})")));
    lost.change->created.push_back({"agent:main:a-copy", updated.theirs});
    CHECK(lost.load().events.size() == 3);
    CHECK(lost.after.field("agent:main:old", "y") == "5");
    CHECK(lost.after.field("agent:main:old", "x") == "1");
  }
  CHECK(lost.after.field("agent:main:old", "messageCount") == "3");
}

TEST_CASE("times before 1970 and beyond 2^53 in another program's files are read back as they were published") {
  const std::vector<std::string> line{
      R"({"type":"message","id":"a","parentId":null,"timestamp":"1960-01-01T00:00:00.000Z","message":)"
      R"({"role":"user","content":"x","timestamp":-9}})"};
  for (const char* updated_at : {"-5", "9007199254740999"}) {
    World world;
    world.store("k", R"({"sessionId":"s","updatedAt":)" + std::string(updated_at) + R"(,"lastInteractionAt":-4})");
    const Decision done = take(world, lines_of(line, 0, 100));  // commit() checks that it reads back
    REQUIRE(done.events.size() == 1);
    CHECK(at(at(done.events[0].data, "set"), "updatedAt") == updated_at);
    CHECK(world.state.last_used.of_agent() == std::vector<std::string>{"k"});
  }
}
