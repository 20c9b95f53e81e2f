#include "daemon/decide/commands.hpp"

#include "store/limits.hpp"
#include "tests/unit/daemon/decide/world.hpp"

using namespace sessiond;
using namespace sessiond::decide;

namespace {

AppendMessages append(std::vector<std::string> entries, std::optional<std::string> topic = {},
                      std::optional<std::uint64_t> expected = {}) {
  AppendMessages command{.target = {.key = main_key}, .append = {.topic = std::move(topic), .expected_seq = expected}};
  for (const auto& entry : entries) {
    auto draft = transcripts::parse_entry(entry, "");
    REQUIRE(draft);
    command.append.entries.push_back(std::move(*draft));
  }
  return command;
}
const std::string hello = R"({"role":"user","text":"hello"})";

struct WithSession : World {
  WithSession() { run(CreateSession{.key = "main", .session_id = "s"}); }
};

}  // namespace

TEST_CASE("the header once, then entries without a hole") {
  WithSession world;
  const Decision first = world.run(append({hello, hello}));
  CHECK(first.status == 201);
  CHECK(first.line_positions.size() == 3);
  CHECK(first.events.size() == 2);
  CHECK(at(first.body, "sessionId") == "\"s\"");
  CHECK(at(first.body, "topic") == "null");
  CHECK(at(first.body, "firstSeq") == "0");
  CHECK(at(first.body, "lastSeq") == "1");
  CHECK(at(first.body, "duplicates") == "0");
  CHECK(at(first.body, "asOf") == "\"0badcafe-3\"");
  const Decision second = world.run(append({hello}));
  CHECK(second.line_positions.size() == 1);
  CHECK(at(second.body, "firstSeq") == "2");
  CHECK(at(second.body, "lastSeq") == "2");
  const auto lines = world.lines("s.jsonl");
  REQUIRE(lines.size() == 4);
  CHECK(at(lines[0], "type") == "\"session\"");
  CHECK(at(lines[0], "id") == "\"s\"");
  CHECK(at(lines[0], "cwd") == "\"/w\"");
  CHECK(at(lines[1], "parentId") == "null");
  CHECK(at(lines[2], "parentId") == at(lines[1], "id"));
  CHECK(at(lines[3], "parentId") == at(lines[2], "id"));
  CHECK(at(at(first.events[1].data, "message"), "seq") == "1");
  CHECK(world.session(main_key).message_count == 3);
  CHECK(world.session(main_key).last_interaction_at == world.now);
  CHECK(world.session(main_key).rev == 1);  // messages do not move it
}

TEST_CASE("what is stored follows from events: lines exact or told") {
  WithSession world;
  for (
      const std::string entry :
      {R"({"type":"compaction","summary":"x"})", R"({"type":"custom","seq":7,"x":1})",
       R"({"type":"message","message":{"role":"user","content":"x","id":"own"}})",
       R"({"type":"message","id":"abcd1234","timestamp":"2026-01-01T00:00:00.000Z","message":{"role":"user","content":"é"},"more":1})",
       R"({"type":"message","message":{"role":"user","content":"x","timestamp":5}})"}) {
    CAPTURE(entry);
    const std::size_t before = world.entries("s.jsonl").size();
    world.run(append({entry}));  // the world checks line positions and ends
    REQUIRE(world.entries("s.jsonl").size() == before + 1);
    CHECK(json::check(world.entries("s.jsonl").back()));
  }
}

TEST_CASE("a missing final newline is put first") {
  WithSession world;
  world.files["s.jsonl"] = R"({"type":"session","id":"s"})"
                           "\n"
                           R"({"type":"message","id":"foreign1","message":{"role":"user","content":"x"}})";
  const std::size_t size = world.files["s.jsonl"].size();
  const Decision done = world.run(append({hello, hello}));
  CHECK(done.line_positions.at(0).at == size + 1);
  const auto entries = world.entries("s.jsonl");
  REQUIRE(entries.size() == 3);
  CHECK(at(entries[1], "parentId") == "\"foreign1\"");
  CHECK(at(done.body, "firstSeq") == "1");
}

TEST_CASE("expectedSeq") {
  WithSession world;
  CHECK(world.refused(append({hello}, {}, 1)).code == Code::precondition_failed);
  world.run(append({hello, hello}, {}, 0));
  CHECK(world.refused(append({hello}, {}, 0)).code == Code::precondition_failed);
  CHECK(world.refused(append({hello}, {}, 3)).code == Code::precondition_failed);
  CHECK(at(world.run(append({hello}, {}, 2)).body, "lastSeq") == "2");
  CHECK(world.run(append({hello}, "t", 0)).events.size() == 2);  // each topic counts for itself
}

TEST_CASE("topics: created once, in files of their own") {
  WithSession world;
  const Decision first = world.run(append({hello}, "t"));
  REQUIRE(first.events.size() == 2);
  CHECK(first.events[0].envelope.type == journal::EventType::topic_created);
  CHECK(first.events[1].envelope.topic == "t");
  CHECK(at(first.body, "topic") == "\"t\"");
  CHECK(world.run(append({hello}, "t")).events.size() == 1);
  world.run(append({hello}));
  CHECK(world.entries("s-topic-t.jsonl").size() == 2);
  CHECK(world.entries("s.jsonl").size() == 1);
  CHECK(world.session(main_key).message_count == 3);
  world.run(CreateSession{.key = "telegram:group:g:topic:42", .session_id = "g"});
  AppendMessages own = append({hello}, "42");
  own.target.key = "g";
  CHECK(world.run(own).events.size() == 1);  // the main_key's own topic is no new one
  CHECK(world.entries("g-topic-42.jsonl").size() == 1);
}

TEST_CASE("duplicates by id, and the facts that are fetched") {
  WithSession world;
  const std::string one = R"({"type":"message","id":"one","message":{"role":"user","content":"x"}})";
  CHECK(world.run(append({one})).events.size() == 1);
  CHECK(world.asked.size() == 1);  // a new file has no ids to read
  const Decision again = world.run(append({one}));
  REQUIRE(world.asked.size() == 1);
  CHECK(world.asked[0].what == Need::What::lines);
  CHECK(world.asked[0].ids == std::vector<std::string>{"one"});
  CHECK(again.events.empty());
  CHECK(again.line_positions.empty());
  CHECK(again.transcript_updates.empty());
  CHECK(at(again.body, "duplicates") == "1");
  CHECK(at(again.body, "ids") == R"(["one"])");
  CHECK(at(again.body, "asOf") == "\"0badcafe-2\"");

  world.state.transcripts.forget("s.jsonl");  // as after a restart
  const Decision mixed = world.run(append({R"({"role":"user","text":"new"})", one}));
  REQUIRE(world.asked.size() == 3);
  CHECK(world.asked[0].what == Need::What::transcript_end);
  CHECK(world.asked[1].what == Need::What::entry_ids);
  CHECK(world.asked[2].what == Need::What::lines);
  CHECK(mixed.events.size() == 1);
  CHECK(at(mixed.body, "duplicates") == "1");

  CHECK(world.refused(append({R"({"type":"message","id":"one","message":{"role":"user","content":"y"}})"})).code ==
        Code::entry_id_conflict);
  CHECK(world.refused(append({R"({"type":"custom","id":"one"})"})).code == Code::entry_id_conflict);
  CHECK(world.refused(append({R"({"role":"user","text":"a","id":"two"})", R"({"role":"user","text":"a","id":"two"})"}))
            .code == Code::entry_id_conflict);
  CHECK(world.session(main_key).message_count == 2);  // refusals leave nothing
  CHECK(world.run(append({R"({"role":"user","text":"a","id":"two"})"})).events.size() == 1);
  CHECK(world.run(append({R"({"id":"two","role":"user","text":"a"})"})).events.empty());
}

TEST_CASE("the lines of a whole batch are fetched at once, and deciding changes nothing") {
  WithSession world;
  std::vector<std::string> entries;
  for (int i = 0; i < 300; ++i) entries.push_back(R"({"role":"user","text":"x","id":"id)" + std::to_string(i) + "\"}");
  const std::vector<std::string> half(entries.begin(), entries.begin() + 150);
  world.run(append(half));
  for (int twice = 0; twice < 2; ++twice) {
    const auto decision = world.ask(append(entries));
    REQUIRE(decision);
    REQUIRE(world.asked.size() == 1);
    CHECK(world.asked[0].ids.size() == 150);
    CHECK(decision->events.size() == 150);
  }
  CHECK(at(world.run(append(entries)).body, "duplicates") == "150");
  CHECK(at(world.run(append(entries)).body, "duplicates") == "300");
  CHECK(world.asked.size() == 1);
}

TEST_CASE("ids minted by us count too, and other entries than messages") {
  WithSession world;
  const Decision ours = world.run(append({R"({"role":"user","text":"a","id":"x"})", hello}));
  const std::string ids = at(ours.body, "ids");
  const std::string minted = *json::as_string(*++json::elements(ids).begin());
  CHECK(world.run(append({R"({"role":"user","text":"hello","id":")" + minted + "\"}"})).events.empty());
  const std::string note = R"({"type":"custom","id":"n","a":{"b":[1,2]},"c":"d"})";
  world.run(append({note}));
  CHECK(world.run(append({note})).events.empty());
  CHECK(world.run(append({R"({"type":"custom","id":"n", "a": {"b": [1, 2]}, "c":"d"})"})).events.empty());
}

TEST_CASE("an id whose hash is another's is no duplicate") {
  WithSession world;
  world.run(append({R"({"role":"user","text":"a","id":"x"})"}));
  world.state.transcripts.find_or_add("s.jsonl").ids->insert(transcripts::id_hash("y"));
  CHECK(world.run(append({R"({"role":"user","text":"a","id":"y"})"})).events.size() == 1);
  CHECK(world.asked.size() == 1);
}

TEST_CASE("a stream has seqs of its own, counts nothing and is bounded") {
  WithSession world;
  world.run(append({hello}));
  const Session before = world.session(main_key);
  AppendMessages command =
      append({R"({"type":"custom","customType":"memoryEvents","data":{"n":1}})"}, "stream:memoryEvents");
  command.append.to_stream = true;
  world.now += 1000;
  for (const std::string_view seq : {"0", "1"}) {
    const Decision done = world.run(command);
    CHECK(at(done.body, "firstSeq") == seq);
    CHECK(at(done.events.back().data, "set") == "{}");
  }
  CHECK(world.entries("s-topic-stream%3AmemoryEvents.jsonl").size() == 2);
  CHECK(world.session(main_key).message_count == before.message_count);
  CHECK(world.session(main_key).updated_at == before.updated_at);
  world.state.transcripts.find_or_add("s-topic-stream%3AmemoryEvents.jsonl").size = LogRules{}.stream_bytes - 10;
  CHECK(world.refused(command).code == Code::content_too_large);
  world.run(CreateSession{.key = "matrix:channel:!A:e:topic:stream:memoryEvents", .session_id = "g"});
  command.target.key = "g";
  CHECK(world.refused(command).code == Code::reserved_name);
}

TEST_CASE("usage and compactions are counted") {
  WithSession world;
  const auto assistant = [](std::string_view usage) {
    return R"({"type":"message","message":{"role":"assistant","content":[],"usage":)" + std::string(usage) + "}}";
  };
  world.run(
      append({assistant(R"({"input":10,"output":5})"), assistant(R"({"input":1,"output":2,"totalTokens":100})")}));
  const Session& session = world.session(main_key);
  CHECK(session.input_tokens == 11);
  CHECK(session.output_tokens == 7);
  CHECK(session.total_tokens == 115);
  world.run(append({assistant(R"({"input":-9,"output":"x"})"), hello,
                    R"({"type":"message","message":{"role":"user","content":"","usage":{"input":99}}})"}));
  CHECK(session.input_tokens == 11);
  CHECK_FALSE(session.compaction_count);
  world.run(append({R"({"type":"compaction"})", R"({"type":"compaction"})"}));
  CHECK(session.compaction_count == 2);
  CHECK(session.message_count == 5);
  CHECK(session.entry_count == 7);
}

TEST_CASE("a session that was not counted, or by an older daemon, begins with what its transcript has") {
  for (const char* entry :
       {R"({"sessionId":"s","updatedAt":1})", R"({"sessionId":"s","updatedAt":1,"messageCount":9})"}) {
    World world;
    world.store(main_key, entry);
    world.files["s.jsonl"] = R"({"type":"session"})"
                             "\n"
                             R"({"type":"message","id":"a","message":{"role":"user","content":"x"}})"
                             "\n"
                             R"({"type":"message","id":"b","message":{"role":"system","content":"x"}})"
                             "\n"
                             R"({"torn)";
    world.run(append({hello}));
    CHECK(world.session(main_key).message_count == 2);
    CHECK(world.session(main_key).entry_count == 4);
  }
}

TEST_CASE("events of an older daemon leave a session as that counted it") {
  World world;
  world.store(main_key, R"({"sessionId":"s","updatedAt":1,"rev":3,"messageCount":4})");
  apply(world.state,
        event_of(5, 6, journal::EventType::message_appended, main_key,
                 R"({"set":{"updatedAt":6,"messageCount":5},"message":{"role":"user"}})", "s"),
        Replay::yes);
  CHECK(world.session(main_key).message_count == 5);
  CHECK(world.session(main_key).entries() == 5);
  CHECK_FALSE(world.session(main_key).entry_count);
}

TEST_CASE("counts that are put right keep the rev, and a replay does it again") {
  constexpr const char* old = R"({"sessionId":"s","updatedAt":1,"rev":3,"messageCount":4})";
  World world;
  world.next_seq = 4;
  world.store(main_key, old);
  world.run(append({hello}));
  CHECK(world.session(main_key).rev == 3);
  AgentState again{"main"};
  again.insert(main_key, raw(old));
  for (const std::string& bytes : world.log) apply(again, decode(*journal::parse_event(bytes)), Replay::yes);
  CHECK(picture(again) == picture(world.state));
}

TEST_CASE("time that went back moves nothing back") {
  WithSession world;
  const std::int64_t before = world.now;
  world.now -= 5000;
  world.run(append({hello}));
  CHECK(world.session(main_key).updated_at == before);
  CHECK(world.session(main_key).last_interaction_at == world.now);
}

TEST_CASE("append: no session, another version, archived") {
  WithSession world;
  AppendMessages command = append({hello});
  command.target.if_match = {"r2"};
  CHECK(world.refused(command).code == Code::precondition_failed);
  command.target = {.key = "nobody"};
  CHECK(world.refused(command).code == Code::session_not_found);
}
