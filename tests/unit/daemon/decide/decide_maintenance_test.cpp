#include "tests/unit/daemon/decide/world.hpp"

using namespace sessiond;
using namespace sessiond::decide;

namespace {

constexpr const char* key = "agent:main:x:1";
constexpr const char* recovered = "agent:main:recovered:lost";

const ArchiveRecord& only_record(const World& world, std::string_view id) {
  const auto records = world.state.archives.of_id(id);
  REQUIRE(records.size() == 1);
  return *records.front();
}

DestroyArchive destroy(const ArchiveRecord& record) {
  return {.session_id = record.session_id,
          .ending = std::string(ending_of(record)),
          .archives = record.archived_as,
          .entry_as = record.entry_as,
          .reason = "archive"};
}

RestoreSession restore_of(const ArchiveRecord& record) {
  return {.key = record.key,
          .session_id = record.session_id,
          .seq = record.seq,
          .archives = record.archived_as,
          .topics = {},
          .entry_as = record.entry_as,
          .entry = "{}"};
}

}  // namespace

TEST_CASE("an archive that is destroyed cannot be restored, and goes once") {
  World world;
  world.run(CreateSession{.key = key, .session_id = "s"});
  world.run(DeleteSession{.target = {.key = key}});
  const ArchiveRecord record = only_record(world, "s");
  const RestoreSession restore = restore_of(record);
  const Decision done = world.run(destroy(record));
  CHECK(done.status == 204);
  REQUIRE(done.events.size() == 1);
  CHECK(done.events[0].envelope.key == key);
  CHECK(at(done.events[0].data, "reason") == "\"archive\"");
  CHECK(at(done.events[0].data, "entryAs") == json::quote(record.entry_as));
  CHECK(ending_of(only_record(world, "s")).empty());
  CHECK(world.run(destroy(record)).events.empty());
  CHECK(world.refused(restore).code == Code::session_not_found);
}

TEST_CASE("an archive that was restored stays") {
  World world;
  world.run(CreateSession{.key = key, .session_id = "s"});
  world.run(DeleteSession{.target = {.key = key}});
  const ArchiveRecord record = only_record(world, "s");
  world.run(restore_of(record));
  const Decision done = world.run(destroy(record));
  CHECK(done.status == 200);
  CHECK(done.events.empty());
}

TEST_CASE("a restored session counts what its archives hold, and nothing where one of them cannot be read") {
  World world;
  world.run(CreateSession{.key = key, .session_id = "s"});
  world.run(DeleteSession{.target = {.key = key}});
  RestoreSession restore = restore_of(only_record(world, "s"));
  restore.entry = R"({"messageCount":1,"entryCount":1})";
  restore.read = {{.file = "s.jsonl", .inode = 7, .size = 100}};
  SUBCASE("all were read") {
    restore.counts = transcripts::Counts{.messages = 2, .entries = 3};
    const Decision done = world.run(restore);
    CHECK(world.session(key).message_count == 2);
    CHECK(world.session(key).entry_count == 3);
    REQUIRE(done.line_positions.size() == 1);
    CHECK(done.line_positions[0] ==
          journal::LinePosition{
              .file = "s.jsonl", .agent = "main", .seq = done.events.front().envelope.seq, .length = 100, .inode = 7});
  }
  SUBCASE("one was not") {
    world.run(restore);
    CHECK(world.session(key).message_count == 1);
    CHECK(!world.session(key).entry_count);
  }
}

TEST_CASE("an orphan is archived under the key that adopting it would give, unless a session has it") {
  World world;
  const PruneOrphan prune{.session_id = "lost", .files = {"lost.jsonl", "lost-topic-t.jsonl"}};
  world.run(CreateSession{.key = key, .session_id = "lost"});
  CHECK(world.run(prune).events.empty());
  world.run(DeleteSession{.target = {.key = key}, .purge = true});
  const Decision done = world.run(prune);
  CHECK(done.status == 204);
  REQUIRE(done.events.size() == 1);
  CHECK(done.events[0].envelope.key == recovered);
  CHECK(at(done.events[0].data, "archivedAs").contains("lost-topic-t.jsonl.pruned."));
  CHECK(at(done.events[0].data, "reason") == "\"orphan\"");
  REQUIRE(world.state.archives.of_key(recovered).size() == 1);
  CHECK(world.state.archives.of_key(recovered).front()->reason == "pruned");
}

TEST_CASE("an orphan is adopted once") {
  World world;
  AdoptOrphan adopt{.session_id = "lost", .files = {"lost.jsonl", "lost-topic-t.jsonl"}};
  adopt.entry.put_int("createdAt", 7);
  adopt.entry.put_int("updatedAt", 8);
  adopt.entry.put_string("name", "a name");
  const Decision done = world.run(adopt);
  CHECK(done.status == 201);
  CHECK(done.events.size() == 2);  // the session and its topic
  const Session& session = world.session(recovered);
  CHECK(session.session_id == "lost");
  CHECK(session.created_at == 7);
  CHECK(session.updated_at == 8);
  CHECK(session.name == "a name");
  CHECK(world.run(adopt).events.empty());
  CHECK(world.run(PruneOrphan{.session_id = "lost", .files = adopt.files}).events.empty());
}
