// What becomes of the particular things of Codex, opencode, OpenClaw and Goose.
#include <fmt/format.h>

#include "foreign_stores.hpp"

using namespace sessiond;
using namespace sessiond::testing;

namespace {

std::string codex_line(const char* type, const std::string& payload) {
  return fmt::format(R"({{"timestamp":"2026-11-23T21:00:00.000Z","type":"{}","payload":{}}})", type, payload) + "\n";
}
std::string codex_message(const char* role, const char* text) {
  return codex_line(
      "response_item",
      fmt::format(R"({{"type":"message","role":"{}","content":[{{"type":"input_text","text":"{}"}}]}})", role, text));
}
const std::string codex_meta =
    codex_line("session_meta",
               R"({"id":"01a20a47-3e79-7442-a723-7beca885cac1","timestamp":"2026-11-23T21:00:00.000Z","cwd":"/"})");

CollectedSession read_rollout(const std::string& lines) {
  const TempDir dir(TempDir::On::memory);
  CollectingSink sink = collected(formats::read_codex, dir.write("rollout-x.jsonl", lines));
  REQUIRE(sink.sessions.size() == 1);
  return sink.sessions.front();
}

}  // namespace

TEST_CASE("codex: the sample that it wrote") {
  const CollectingSink sink = collected(formats::read_codex, foreign_data / "codex");
  REQUIRE(sink.sessions.size() == 1);
  const auto path = path_to_leaf(sink.sessions.front());
  CHECK(roles_of(path) == "user user assistant toolResult assistant user assistant");
  CHECK(sink.text().contains(R"("arguments":{"cmd": "echo out42"})") == false);  // compact
  CHECK(sink.text().contains(R"("arguments":{"cmd":"echo out42"})"));
  CHECK(sink.text().contains(R"("type":"model_change")"));
}

TEST_CASE("codex: turns that were rolled back are a branch that ended") {
  const auto session = read_rollout(codex_meta + codex_message("user", "one") + codex_message("assistant", "1") +
                                    codex_message("user", "two") + codex_message("assistant", "2") +
                                    codex_line("event_msg", R"({"type":"thread_rolled_back","num_turns":1})") +
                                    codex_message("user", "three"));
  const auto path = path_to_leaf(session);
  CHECK(roles_of(path) == "user assistant user");
  CHECK(path.back().contains("three"));
  CHECK(session.lines.size() == 7);
}

TEST_CASE("codex: a compaction with its summary in what replaces the history") {
  const auto session = read_rollout(
      codex_meta + codex_message("user", "one") +
      codex_line(
          "compacted",
          R"({"message":"","replacement_history":[{"type":"message","role":"user","content":[{"type":"input_text","text":"sum"}]}]})") +
      codex_message("user", "two"));
  CHECK(roles_of(path_to_leaf(session)) == "user compaction user");
  CHECK(session.lines[2].contains(R"("summary":"sum","firstKeptEntryId":"line-3")"));
}

TEST_CASE("codex: rollouts of the first versions, whose lines are the payloads") {
  const auto session = read_rollout(
      R"({"id":"01a20a47-3e79-7442-a723-7beca885cac1","timestamp":"2025-06-01T10:00:00.000Z","instructions":null})"
      "\n"
      R"({"record_type":"state"})"
      "\n"
      R"({"type":"message","role":"user","content":[{"type":"input_text","text":"<environment_context>"}]})"
      "\n"
      R"({"type":"message","role":"user","content":[{"type":"input_text","text":"one"}]})"
      "\n"
      R"({"type":"local_shell_call","id":"i","call_id":"c","status":"completed","action":{"type":"exec","command":["ls"]}})"
      "\n"
      R"({"type":"function_call_output","call_id":"c","output":"{\"output\":\"x\"}"})"
      "\n");
  CHECK(session.head.id == "01a20a47-3e79-7442-a723-7beca885cac1");
  CHECK(roles_of(path_to_leaf(session)) == "user user assistant toolResult");
  CHECK(session.lines[2].contains(R"("synthetic":true)"));
}

TEST_CASE("opencode: steps of one message, a compaction with a tail, messages that were undone") {
  const TempDir dir(TempDir::On::memory);
  const auto message = [&dir](const char* id, const char* text) {
    dir.write(fmt::format("storage/message/ses_1/{}.json", id), text);
  };
  const auto part = [&dir](const char* of, const char* id, const char* text) {
    dir.write(fmt::format("storage/part/{}/{}.json", of, id), text);
  };
  dir.write(
      "storage/session/p/ses_1.json",
      R"({"id":"ses_1","parentID":"ses_0","title":"t","time":{"created":1795468604000,"updated":1795468605000},"revert":{"messageID":"msg_5"}})");
  message("msg_1", R"({"role":"user","time":{"created":1795468604001}})");
  part("msg_1", "prt_1", R"({"type":"text","text":"one"})");
  message(
      "msg_2",
      R"({"role":"assistant","providerID":"p","modelID":"m","time":{"created":1795468604002},"tokens":{"input":1,"output":2,"reasoning":3,"cache":{"read":4,"write":5}}})");
  part("msg_2", "prt_2", R"({"type":"step-start"})");
  part(
      "msg_2", "prt_3",
      R"({"type":"tool","callID":"c","tool":"read","state":{"status":"error","input":{},"error":"no","time":{"start":1,"end":2}}})");
  part("msg_2", "prt_4",
       R"({"type":"step-finish","tokens":{"input":7,"output":1,"reasoning":0,"cache":{"read":0,"write":0}}})");
  part("msg_2", "prt_5", R"({"type":"step-start"})");
  part("msg_2", "prt_6", R"({"type":"text","text":"two"})");
  message("msg_3", R"({"role":"user","time":{"created":1795468604003}})");
  part("msg_3", "prt_7", R"({"type":"compaction","auto":true,"tail_start_id":"msg_2"})");
  message("msg_4", R"({"role":"assistant","summary":true,"time":{"created":1795468604004}})");
  part("msg_4", "prt_8", R"({"type":"text","text":"sum"})");
  message("msg_5", R"({"role":"user","time":{"created":1795468604005}})");
  part("msg_5", "prt_9", R"({"type":"text","text":"undone"})");
  const CollectingSink sink = collected(formats::read_opencode, dir.path());
  REQUIRE(sink.sessions.size() == 1);
  CHECK(json::string_at(sink.sessions[0].head.header, "parentSession") == "ses_0.jsonl");
  CHECK(roles_of(path_to_leaf(sink.sessions[0])) == "user assistant toolResult assistant compaction");
  CHECK(sink.text().contains(R"("summary":"sum","firstKeptEntryId":"msg_2")"));
  CHECK(sink.text().contains(R"("totalTokens":8,)"));   // of the first step
  CHECK(sink.text().contains(R"("totalTokens":15,)"));  // of the second: the message's
  CHECK(sink.text().contains("undone"));
}

TEST_CASE("opencode: what is in the database is not read from the folder again") {
  const TempDir dir;
  run_sql(dir / "opencode.db", text_of_file(foreign_data / "opencode/opencode.sql"));
  dir.write("storage/session/global/ses_df5b8aec6ffeT5mt8J97abYriX.json", R"({"title":"older"})");
  dir.write("storage/session/global/ses_2.json", R"({"title":"only here"})");
  const CollectingSink sink = collected(formats::read_opencode, dir.path());
  CHECK(sink.sessions.size() == 3);
  REQUIRE(sink.skips.size() == 1);
  CHECK(sink.skips.front().why.ends_with("storage: 1 sessions are in the database, too"));
}

TEST_CASE("opencode: messages of a session without a file, and parts of a message without one, are named") {
  const TempDir dir(TempDir::On::memory);
  dir.write("storage/session/global/ses_a.json", R"({"id":"ses_a"})");
  dir.write("storage/session/global/ses_bad.json", "{");  // named by itself
  for (const char* session : {"ses_a", "ses_bad", "ses_gone"}) {
    const std::string message = std::string("msg_of_") + session;
    dir.write(fmt::format("storage/message/{}/{}.json", session, message),
              R"({"role":"user","time":{"created":1795468604001}})");
    dir.write(fmt::format("storage/part/{}/prt.json", message), R"({"type":"text","text":"x"})");
  }
  dir.write("storage/part/msg_gone/prt_1.json", R"({"type":"text","text":"x"})");
  dir.write("storage/part/msg_gone/prt_2.json", R"({"type":"text","text":"y"})");
  std::filesystem::create_directories(dir / "storage/message/ses_empty");
  const CollectingSink sink = collected(formats::read_opencode, dir.path());
  CHECK(sink.sessions.size() == 1);
  REQUIRE(sink.skips.size() == 3);
  CHECK(sink.skips[0].why.contains("ses_bad.json: is not JSON"));
  CHECK(sink.skips[1].id == "ses_gone");
  CHECK(sink.skips[1].why.ends_with("storage/message/ses_gone: 1 messages are not taken: their session has no file"));
  CHECK(sink.skips[2].why.ends_with("storage/part/msg_gone: 2 parts are not taken: their message has no file"));
}

TEST_CASE(
    "opencode: rows of messages and parts without what they belong to are named, and those of the folder are not") {
  const TempDir dir;
  run_sql(dir / "opencode.db",
          text_of_file(foreign_data / "opencode/opencode.sql") +
              "PRAGMA foreign_keys = OFF;"
              "INSERT INTO message SELECT 'msg_x', 'ses_x', time_created, time_updated, data FROM message LIMIT 1;"
              "INSERT INTO part (id, message_id, session_id, time_created, time_updated, data) SELECT 'prt_x', "
              "'msg_none', session_id, time_created, time_updated, data FROM part LIMIT 1;");
  dir.write("storage/message/ses_df5b8aec6ffeT5mt8J97abYriX/msg_1.json", "{}");  // its session is in the database
  const CollectingSink sink = collected(formats::read_opencode, dir.path());
  REQUIRE(sink.skips.size() == 2);
  CHECK(sink.skips[0].why.ends_with("opencode.db, table message: 1 rows of sessions that are not there are not taken"));
  CHECK(sink.skips[1].why.ends_with("opencode.db, table part: 1 rows of messages that are not there are not taken"));
}

TEST_CASE("goose: messages that a summary stands for, two results in one message") {
  const TempDir dir;
  run_sql(dir / "sessions.db", text_of_file(foreign_data / "goose/sessions.sql"));
  const CollectingSink sink = collected(formats::read_goose, dir.path());
  REQUIRE(sink.sessions.size() == 1);
  CHECK(json::string_at(sink.sessions[0].head.entry, "displayName") == "Lights");
  CHECK(json::string_at(sink.sessions[0].head.entry, "model") == "gpt-5");
  CHECK(roles_of(path_to_leaf(sink.sessions[0])) == "user assistant toolResult toolResult compaction assistant user");
  CHECK(sink.text().contains(R"("toolName":"shell","content":[{"type":"text","text":"-32603: no b"}],"isError":true)"));
  CHECK(sink.text().contains("They asked for two commands."));
}

TEST_CASE("openclaw: earlier sessions of a key, a leaf that is not the last entry, another agent's damaged database") {
  const TempDir dir;
  run_sql(dir / "agents/main/agent/openclaw-agent.sqlite",
          text_of_file(foreign_data / "openclaw/openclaw-agent.sql") +
              "INSERT INTO session_windows (session_id, session_key, reason, created_at, updated_at) VALUES "
              "('earlier', 'agent:main:main', 'initial', 1795460000000, 1795460001000);"
              "UPDATE session_transcript_index_state SET leaf_event_id = '84755dd3-1bba-4942-b37a-f63e3046047b';");
  dir.write("agents/broken/agent/openclaw-agent.sqlite", "nothing");
  const CollectingSink sink = collected(formats::read_openclaw, dir.path());
  REQUIRE(sink.sessions.size() == 2);
  CHECK(sink.sessions[0].head.key == "agent:main:main");
  CHECK(roles_of(path_to_leaf(sink.sessions[0])) == "user");
  CHECK(sink.sessions[1].head.id == "earlier");
  CHECK(sink.sessions[1].head.key.empty());
  REQUIRE(sink.skips.size() == 1);
  CHECK(sink.skips.front().why.contains("agents/broken/agent/openclaw-agent.sqlite: "));
}

TEST_CASE("openclaw: a leaf that is no id is named, and makes no line") {
  const TempDir dir;
  run_sql(dir / "agents/main/agent/openclaw-agent.sqlite",
          text_of_file(foreign_data / "openclaw/openclaw-agent.sql") +
              R"(UPDATE session_transcript_index_state SET leaf_event_id = 'a"}' || char(10) || '{"type":"session"';)");
  const CollectingSink sink = collected(formats::read_openclaw, dir.path());
  REQUIRE(sink.sessions.size() == 1);
  for (const std::string& line : sink.sessions[0].lines) CHECK(!line.contains("import.leaf"));
  REQUIRE(sink.skips.size() == 1);
  CHECK(sink.skips.front().why.ends_with(", /leaf_event_id: is no id that an entry may have"));
}

TEST_CASE("a conversation that breaks off is not written") {
  const TempDir dir;
  formats::OpenclawFolder folder({.dir = dir.path(), .agent = "main"});
  REQUIRE(
      folder.session({.id = "s1", .key = "k", .header = R"({"type":"session","version":3,"id":"s1"})"}).has_value());
  REQUIRE(folder.entry(R"({"type":"custom","id":"a","parentId":null})").has_value());
  const auto ended = folder.end();
  REQUIRE(!ended.has_value());
  CHECK(ended.error().detail == "the conversation of session s1 broke off");
  CHECK(folder.written() == 0);
}

TEST_CASE("topics that do not come are missed") {
  const TempDir dir;
  formats::OpenclawFolder folder({.dir = dir.path(), .agent = "main"});
  REQUIRE(folder.session({.id = "s1", .key = "agent:main:slack:channel:c:thread:1.5", .header = "{}"}).has_value());
  REQUIRE(folder.entry(R"({"type":"custom","customType":"sessiond.end","data":{"leftOut":{},"more":2}})").has_value());
  REQUIRE(folder.end().has_value());
  const auto ended = folder.end_session();
  REQUIRE(!ended.has_value());
  CHECK(ended.error().detail == "2 topics of session s1 could not be read");
  REQUIRE(folder.finish().has_value());
  // OpenClaw would look for a file that is named after the thread.
  CHECK(text_of_file(dir.path() / "agents/main/sessions/sessions.json").contains("/agents/main/sessions/s1.jsonl\"}"));
}

TEST_CASE("openclaw: a folder of before 2026.8, and one that was written") {
  const CollectingSink sink = collected(formats::read_openclaw, foreign_data / "small");
  CHECK(sink.sessions.size() > 10);
  for (const CollectedSession& session : sink.sessions) {
    CHECK(!session.head.topic);
    if (session.head.key.ends_with(":topic:1")) CHECK(session.lines.size() == 1);  // the topic's file is its own
  }
  const TempDir dir;
  const auto written = [&dir](bool replaces) {
    std::string skips;
    formats::OpenclawFolder folder({.dir = dir.path(),
                                    .agent = "main",
                                    .replaces = replaces,
                                    .on_skip = [&skips](const formats::Skipped& skipped) { skips += skipped.why; }});
    const std::string header = R"({"type":"session","version":3,"id":"s1"})";
    const std::string last = R"({"type":"custom","customType":"sessiond.end","data":{"leftOut":{}}})";
    auto done = folder.session({.id = "s1", .key = "agent:main:main", .header = header, .entry = R"({"updatedAt":5})"});
    if (done) done = folder.entry(R"({"type":"custom","id":"a","parentId":null})");
    if (done) done = folder.entry(last);
    if (done) done = folder.end();
    if (done) done = folder.session({.id = "s1", .key = "agent:main:main", .topic = "42", .header = header});
    if (done) done = folder.entry(last);
    if (done) done = folder.end();
    if (done) done = folder.session({.id = "s2", .key = "agent:main:empty", .header = header});
    if (done) done = folder.entry(last);
    if (done) done = folder.end();
    if (done) done = folder.finish();
    return done ? skips : done.error().detail;
  };
  dir.write("agents/main/sessions/s2.jsonl", "theirs");
  CHECK(written(false).ends_with("s2.jsonl: is there already"));
  CHECK(written(false).ends_with("sessions.json: is there already"));
  CHECK(written(true).empty());
  const CollectingSink again = collected(formats::read_openclaw, dir.path());
  REQUIRE(again.sessions.size() == 3);
  CHECK(again.skips.empty());
  CHECK(again.sessions[1].head.topic == "42");
  CHECK(again.sessions[0].head.key == "agent:main:main");
  CHECK(again.sessions[0].lines.size() == 1);
}
