// MalformedStore stores of other programs: each fault is named with file, place and pointer, and all else is imported.
#include <fmt/format.h>

#include "foreign_stores.hpp"

using namespace sessiond;
using namespace sessiond::testing;

namespace {

struct MalformedStore {
  const char* bad;       // what stands between two good lines or rows
  const char* named;     // what the skip says, without the file
  std::size_t more = 0;  // entries that are made all the same
};

// Expects the one skip that a fault gives, and the good entries around it.
void expect_named(const MalformedStore& fault, const CollectingSink& sink, const std::string& file, std::size_t good) {
  INFO(fault.bad);
  REQUIRE(sink.skips.size() == 1);
  CHECK(sink.skips.front().why == fmt::format("{}{}", file, fault.named));
  REQUIRE(sink.sessions.size() == 1);
  CHECK(sink.sessions.front().lines.size() == good + fault.more);
  CHECK(sink.sessions.front().ended);
}

const std::string not_text = "\"\xff\"";

}  // namespace

TEST_CASE("malformed: Claude Code") {
  const std::vector<MalformedStore> faults = {
      {R"({"type":"user","message":{"role":"user")", ", line 2: is not JSON: unexpected end at byte 39"},
      {"[1,2]", ", line 2: is not a JSON object"},
      {"\x01", ", line 2: is not JSON: unexpected byte 0x01 at byte 0"},
      {R"({"uuid":"x","message":{}})", ", line 2, /type: is missing"},
      {R"({"type":"user","uuid":"x","parentUuid":"a","message":"hello"})", ", line 2, /message: is not an object"},
      {R"({"type":"assistant","uuid":"x","parentUuid":"a","message":{"role":"assistant"}})",
       ", line 2, /message/content: is missing"},
      {R"({"type":"user","uuid":"x","message":{"role":"user","content":7}})",
       ", line 2, /message/content: is neither a string nor an array"},
      {R"({"type":"user","uuid":"x","message":{"role":"user","content":[{"type":"text","text":"a"},3]}})",
       ", line 2, /message/content/1: is not an object"},
      {R"({"type":"user","uuid":"a","message":{"role":"user","content":"again"}})",
       ", line 2, /uuid: stands in an earlier line, too"},
      {R"({"type":"user","uuid":"x","timestamp":"soon","message":{"role":"user","content":"hi"}})",
       ", line 2, /timestamp: is no time; the line is taken, with the time of the one before", 1},
      {R"({"type":"user","uuid":"x","message":{"role":"user","content":[{"type":"tool_result","content":"A"}]}})",
       ", line 2, /message/content: holds a tool_result without tool_use_id"},
  };
  for (const MalformedStore& fault : faults) {
    const TempDir dir(TempDir::On::memory);
    const auto file = dir.write(
        "projects/p/01165fb3-732a-8968-b58f-6f573df34230.jsonl",
        fmt::format(
            "{}\n{}\n{}\n",
            R"({"type":"user","uuid":"a","parentUuid":null,"timestamp":"2026-11-23T21:00:00.000Z","message":{"role":"user","content":"one"}})",
            fault.bad,
            R"({"type":"user","uuid":"b","parentUuid":"a","timestamp":"2026-11-23T21:00:01.000Z","message":{"role":"user","content":"two"}})"));
    expect_named(fault, collected(formats::read_claude_code, dir.path()), file.native(), 2);
  }
}

TEST_CASE("malformed: Codex") {
  const std::vector<MalformedStore> faults = {
      {R"({"timestamp":"2026-11-23T21:00:00.500Z","type":"response_item","payload":{)",
       ", line 3: is not JSON: unexpected end at byte 74"},
      {"null", ", line 3: is not a JSON object"},
      {R"({"timestamp":"2026-11-23T21:00:00.500Z"})", ", line 3, /type: is missing"},
      {R"({"timestamp":"2026-11-23T21:00:00.500Z","type":"response_item","payload":[]})",
       ", line 3, /payload: is not an object"},
      {R"({"type":"response_item","payload":{"role":"user","content":[]}})", ", line 3, /payload/type: is missing"},
      {R"({"type":"response_item","payload":{"type":"message","content":[]}})",
       ", line 3, /payload/role: is not a string"},
      {R"({"type":"response_item","payload":{"type":"message","role":"user","content":{}}})",
       ", line 3, /payload/content: is neither a string nor an array"},
      {R"({"type":"response_item","payload":{"type":"message","role":"user","content":["a"]}})",
       ", line 3, /payload/content/0: is not an object"},
      {R"({"type":"response_item","payload":{"type":"function_call","name":"shell","arguments":"{}"}})",
       ", line 3, /payload/call_id: is not a string"},
      {R"({"type":"response_item","payload":{"type":"function_call_output","call_id":"c"}})",
       ", line 3, /payload/output: is missing"},
      {R"({"type":"compacted","payload":{"message":null}})", ", line 3, /payload/message: is not a string"},
      {R"({"type":"event_msg","payload":{"type":"thread_rolled_back","num_turns":9}})",
       ", line 3, /payload/num_turns: names more turns than there are; they stay", 1},
  };
  for (const MalformedStore& fault : faults) {
    const TempDir dir(TempDir::On::memory);
    const auto file = dir.write(
        "sessions/2026/11/23/rollout-2026-11-23T21-00-00-01a20a47-3e79-7442-a723-7beca885cac1.jsonl",
        fmt::format(
            "{}\n{}\n{}\n{}\n",
            R"({"timestamp":"2026-11-23T21:00:00.000Z","type":"session_meta","payload":{"id":"01a20a47-3e79-7442-a723-7beca885cac1","cwd":"/"}})",
            R"({"timestamp":"2026-11-23T21:00:00.100Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"one"}]}})",
            fault.bad,
            R"({"timestamp":"2026-11-23T21:00:01.000Z","type":"response_item","payload":{"type":"message","role":"user","content":"two"}})"));
    expect_named(fault, collected(formats::read_codex, dir.path()), file.native(), 3);
  }
}

TEST_CASE("malformed: opencode, in its folder and in its database") {
  struct Stored {
    const char* message;
    const char* part;
    const char* message_fault;  // "": the fault is in the part
    const char* part_fault;
    std::size_t more = 0;
  };
  const char* const user = R"({"role":"user","time":{"created":1795468604892}})";
  const char* const reply = R"({"role":"assistant","time":{"created":1795468604892}})";
  const char* const text = R"({"type":"text","text":"x"})";
  const std::vector<Stored> faults = {
      {"{", text, ": is not JSON: unexpected end at byte 1", ""},
      {"[]", text, ": is not a JSON object", ""},
      {R"({"time":{"created":1795468604892}})", text, ", /role: is neither \"user\" nor \"assistant\"", ""},
      {R"({"role":"system","time":{"created":1795468604892}})", text, ", /role: is neither \"user\" nor \"assistant\"",
       ""},
      {R"({"role":"user"})", text, ", /time/created: is no time; the message is taken, with the time of the one before",
       "", 1},
      {R"({"role":"user","time":{"created":"then"}})", text,
       ", /time/created: is no time; the message is taken, with the time of the one before", "", 1},
      {user, "{]", "", ": is not JSON: unexpected ']' at byte 1", 1},
      {user, R"({"text":"x"})", "", ", /type: is not a string", 1},
      {reply, R"({"type":"tool","tool":"bash","state":{"status":"completed"}})", "", ", /callID: is not a string", 1},
      {reply, R"({"type":"tool","callID":"c","state":{"status":"completed"}})", "", ", /tool: is not a string", 1},
      {reply, R"({"type":"tool","callID":"c","tool":"bash"})", "", ", /state: is not an object", 1},
  };
  for (const Stored& each : faults) {
    const TempDir dir(TempDir::On::memory);
    const auto info =
        dir.write("storage/session/p/ses_1.json",
                  R"({"id":"ses_1","title":"t","time":{"created":1795468604000,"updated":1795468605000}})");
    dir.write("storage/message/ses_1/msg_1.json", user);
    dir.write("storage/part/msg_1/prt_1.json", text);
    dir.write("storage/message/ses_1/msg_2.json", each.message);
    dir.write("storage/part/msg_2/prt_2.json", each.part);
    const bool of_part = std::string(each.message_fault).empty();
    const std::string named = fmt::format(", {}{}", of_part ? "part/msg_2/prt_2.json" : "message/ses_1/msg_2.json",
                                          of_part ? each.part_fault : each.message_fault);
    expect_named({of_part ? each.part : each.message, named.c_str(), each.more},
                 collected(formats::read_opencode, dir.path()), info.native(), 2);

    const auto quoted = [](const char* json) { return std::string("'") + json + "'"; };
    const auto file = dir / "db/opencode.db";
    run_sql(
        file,
        fmt::format(
            "CREATE TABLE session (id TEXT, title TEXT, directory TEXT, time_created INTEGER, time_updated INTEGER);"
            "CREATE TABLE message (id TEXT, session_id TEXT, time_created INTEGER, data TEXT);"
            "CREATE TABLE part (id TEXT, message_id TEXT, data TEXT);"
            "INSERT INTO session VALUES ('ses_1', 't', '/', 1795468604000, 1795468605000);"
            "INSERT INTO message VALUES ('msg_1', 'ses_1', 1, {}), ('msg_2', 'ses_1', 2, {});"
            "INSERT INTO part VALUES ('prt_1', 'msg_1', {}), ('prt_2', 'msg_2', {});",
            quoted(user), quoted(each.message), quoted(text), quoted(each.part)));
    const std::string in_row =
        fmt::format(", {}{}", of_part ? "part prt_2" : "message msg_2", of_part ? each.part_fault : each.message_fault);
    expect_named({each.message, in_row.c_str(), each.more}, collected(formats::read_opencode, file), file.native(), 2);
  }
}

TEST_CASE("malformed: OpenClaw") {
  const std::vector<MalformedStore> faults = {
      {"{", ", transcript_events s1/2: is not JSON: unexpected end at byte 1"},
      {"[]", ", transcript_events s1/2: is not a JSON object"},
      {R"("entry")", ", transcript_events s1/2: is not a JSON object"},
      {R"({"id":"x","message":{}})", ", transcript_events s1/2, /type: is not a string"},
      {R"({"type":7,"id":"x"})", ", transcript_events s1/2, /type: is not a string"},
      {R"({"type":"custom"})", ", transcript_events s1/2, /id: is missing, or no id that an entry may have"},
      {R"({"type":"custom","id":""})", ", transcript_events s1/2, /id: is missing, or no id that an entry may have"},
      {R"({"type":"custom","id":"a b"})", ", transcript_events s1/2, /id: is missing, or no id that an entry may have"},
      {R"({"type":"message","id":"x"})", ", transcript_events s1/2, /message: is not an object"},
      {R"({"type":"message","id":"x","message":"hi"})", ", transcript_events s1/2, /message: is not an object"},
  };
  const auto sql = [](const std::string& bad) {
    return fmt::format(
        "CREATE TABLE session_nodes (session_key TEXT, current_session_id TEXT, entry_json TEXT);"
        "CREATE TABLE session_windows (session_id TEXT, session_key TEXT, created_at INTEGER, updated_at INTEGER);"
        "CREATE TABLE transcript_events (session_id TEXT, seq INTEGER, event_json TEXT, event_zstd BLOB);"
        "INSERT INTO session_nodes VALUES ('agent:main:main', 's1', '{{\"sessionId\":\"s1\"}}');"
        "INSERT INTO session_windows VALUES ('s1', 'agent:main:main', 1795468604000, 1795468605000);"
        "INSERT INTO transcript_events VALUES ('s1', 0, '{{\"type\":\"session\",\"version\":4,\"id\":\"s1\"}}', NULL),"
        "('s1', 1, '{{\"type\":\"custom\",\"id\":\"a\",\"parentId\":null}}', NULL), ('s1', 2, {}),"
        "('s1', 3, '{{\"type\":\"custom\",\"id\":\"b\",\"parentId\":\"a\"}}', NULL);",
        bad);
  };
  const TempDir dir(TempDir::On::memory);
  int count = 0;
  for (const MalformedStore& fault : faults) {
    const auto file = dir / fmt::format("{}.sqlite", ++count);
    run_sql(file, sql(fmt::format("'{}', NULL", fault.bad)));
    expect_named(fault, collected(formats::read_openclaw, file), file.native(), 2);
  }
  const auto packed = dir / "packed.sqlite";
  run_sql(packed, sql("NULL, x'28b52ffd'"));
  expect_named({"zstd", ", transcript_events s1/2, /event_zstd: is compressed"},
               collected(formats::read_openclaw, packed), packed.native(), 2);
}

TEST_CASE("malformed: Goose") {
  const std::vector<MalformedStore> faults = {
      {R"({"role":"user","created":1741601472,"content":[)", ", line 3: is not JSON: unexpected end at byte 47"},
      {"7", ", line 3: is not a JSON object"},
      {not_text.c_str(), ", line 3: is not JSON: not UTF-8 at byte 1"},
      {R"({"created":1741601472,"content":[]})", ", line 3, /role: is neither \"user\" nor \"assistant\""},
      {R"({"role":"tool","created":1741601472,"content":[]})",
       ", line 3, /role: is neither \"user\" nor \"assistant\""},
      {R"({"role":"user","created":1741601472})", ", line 3, /content: is not an array"},
      {R"({"role":"user","created":1741601472,"content":"hi"})", ", line 3, /content: is not an array"},
      {R"({"role":"user","created":1741601472,"content":["hi"]})", ", line 3, /content/0/type: is not a string"},
      {R"({"role":"user","created":-1,"content":[{"type":"text","text":"x"}]})",
       ", line 3, /created: is no time; the line is taken, with the time of the one before", 1},
      {R"({"role":"user","created":1741601472,"content":[{"type":"toolResponse","toolResult":{}}]})",
       ", line 3, /content/0/id: is not a string"},
      {R"({"role":"user","created":1741601472,"content":[{"type":"text","text":"x"},{"type":"toolResponse","id":"c"}]})",
       ", line 3, /content/1/toolResult: is not an object", 1},
  };
  for (const MalformedStore& fault : faults) {
    const TempDir dir(TempDir::On::memory);
    const auto file = dir.write(
        "20250310_101112.jsonl",
        fmt::format("{}\n{}\n{}\n{}\n", R"({"working_dir":"/","description":"d"})",
                    R"({"role":"user","created":1741601471,"content":[{"type":"text","text":"one"}]})", fault.bad,
                    R"({"role":"assistant","created":1741601473,"content":[{"type":"text","text":"two"}]})"));
    expect_named(fault, collected(formats::read_goose, dir.path()), file.native(), 3);
  }
}

TEST_CASE("malformed: files that hold no session, and ids that no session may have") {
  const TempDir dir;
  const auto empty = dir.write("c/projects/p/a.jsonl", "");
  const auto junk = dir.write("c/projects/p/b.jsonl", "junk\n");
  const auto odd =
      dir.write("c/projects/p/...jsonl", "{\"type\":\"user\",\"uuid\":\"a\",\"message\":{\"content\":\"x\"}}\n");
  dir.write("c/projects/p/same.jsonl", "{\"type\":\"mode\"}\n");
  dir.write("c/projects/q/same.jsonl", "{\"type\":\"mode\"}\n");
  std::filesystem::create_directory(dir / "c/projects/p/folder.jsonl");
  const CollectingSink sink = collected(formats::read_claude_code, dir / "c");
  REQUIRE(sink.sessions.size() == 3);
  REQUIRE(sink.skips.size() == 4);
  CHECK(sink.skips[0].why.contains("taken as imported-"));
  CHECK(sink.skips[1].why == empty.native() + ": holds no line of a session");
  CHECK(sink.skips[2].why == junk.native() + ": holds no line of a session");
  CHECK(sink.skips[3].why.contains("taken as imported-"));
  CHECK(sink.sessions[1].head.id == "same");
  CHECK(sink.sessions[2].head.id.starts_with("imported-"));
  CHECK(collected(formats::read_claude_code, dir / "c").text() == sink.text());
}
