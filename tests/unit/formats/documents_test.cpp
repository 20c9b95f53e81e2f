#include <doctest/doctest.h>

#include "formats/index.hpp"
#include "formats/jsonl.hpp"
#include "store/names.hpp"
#include "tests/unit/formats/sessions.hpp"

using namespace sessiond;
using namespace sessiond::testing;

namespace {

// A document of this format as another program wrote it comes back equal, but for members that are told elsewhere.
void comes_back(std::string_view format, std::string_view text) {
  const std::string again = document(format, read_back(format, text));
  INFO(again);
  CHECK(json::same(store::trim(again), text));
}

std::string managed(std::size_t files) {
  std::string list;
  for (std::size_t at = 0; at < files; ++at) list += fmt::format(R"({}{{"id":"f{}","path":"/f"}})", at ? "," : "", at);
  return fmt::format(
      R"({{"id":"s1","workerId":"w","workspaceId":"x","name":"n","messages":[{{"role":"user","text":"hi","files":[]}},{{"role":"user","text":"see","files":[{}]}}]}})",
      list);
}

}  // namespace

TEST_CASE("a record of an agent's library comes back as it was") {
  comes_back(
      "robota",
      R"({"id":"r1","cwd":"/w","name":"n","createdAt":"2025-01-04T14:32:15.000Z","updatedAt":"2025-01-04T14:33:15Z","messages":[{"role":"system","content":"be kind"},{"id":"1","role":"user","content":"hi","timestamp":"2025-01-04T14:32:16.000Z","state":"complete"},{"role":"assistant","content":"on it","toolCalls":[{"id":"c","type":"function","function":{"name":"ls","arguments":"{\"a\":1}"}}],"metadata":{}},{"role":"tool","content":"x","toolCallId":"c","name":"ls"}],"history":[{"id":"h1","category":"event","type":"tool-summary","data":{ "a" : 1 }},{"id":"h2","category":"chat"}],"systemPrompt":"be kind","toolSchemas":[{"name":"ls"}],"backgroundTasks":[],"unknown":1})");
  comes_back(
      "robota",
      R"({"id":"r1","cwd":"/w","createdAt":"2025-01-04T14:32:15.000Z","updatedAt":"2025-01-04T14:32:15.000Z","messages":[{"role":"user","content":"hi"}],"history":[]})");
}

TEST_CASE("calls of an imported record are calls to the daemon") {
  const CollectedSession session = read_back(
      "robota",
      R"({"id":"r1","messages":[{"role":"assistant","content":"on it","toolCalls":[{"id":"c","type":"function","function":{"name":"ls","arguments":"{\"a\":1}"}}]}]})");
  REQUIRE(session.lines.size() == 1);
  CHECK(session.lines[0].contains(
      R"("message":{"role":"assistant","content":[{"type":"text","text":"on it"},{"type":"toolCall","id":"c","name":"ls","arguments":{"a":1}}]})"));
}

TEST_CASE("a record without a history gets one of its messages") {
  const std::string made =
      document("robota", read_back("robota", R"({"id":"r1","messages":[{"role":"user","content":"hi"}]})"));
  CHECK(made.contains(R"("history":[{"seq":0,"id":"00000000","parentId":null,"type":"message",)"));
}

TEST_CASE("a history goes on with what was appended after an import") {
  CollectedSession session = read_back("robota", R"({"id":"r1","messages":[],"history":[{"id":"h1"}]})");
  session.lines.push_back(
      R"({"type":"message","id":"new","parentId":"00000001","message":{"role":"user","content":"x"}})");
  CHECK(document("robota", session).contains(R"("history":[{"id":"h1"},{"seq":2,"id":"new",)"));
}

TEST_CASE("a stored session comes back as it was") {
  comes_back(
      "json",
      R"({"metadata":{"id":"s1","name":"My session","description":"d","createdAt":"2025-01-04T15:32:15+01:00","lastActivityAt":"2025-01-04T14:33:15.000Z","messageCount":2,"firstMessage":"hi","provider":"p","model":"m","theirs":[1]},"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"text","text":"yo"}],"timestamp":"2025-01-04T14:32:15.000Z","theirs":1}],"contextSummary":"all of it","theirs":{}})");
}

TEST_CASE("a manager's session with ten files comes back; with eleven it is refused") {
  comes_back("manager", managed(10));
  const auto refused = try_read("manager", managed(11));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Code::validation_failed);
  CHECK(refused.error().errors.front().pointer == "/messages/1");
  comes_back(
      "manager",
      R"({"id":"s1","workerId":"w","workspaceId":"x","name":"n","messages":[{"role":"assistant","text":"t","toolCalls":[{"id":"c","name":"ls","arguments":{"a":1},"result":{"content":"done"}},{"tool":"odd"}],"usage":{"inputTokens":1,"outputTokens":2},"model":"m","theirs":1},{"role":"user","text":"","synthetic":true,"summary":true}],"theirs":1})");
}

TEST_CASE("results of calls stand with their calls in a manager's session") {
  const CollectedSession session = read_back(
      "manager",
      R"({"id":"s1","messages":[{"role":"assistant","text":"t","toolCalls":[{"id":"c","name":"ls","arguments":{},"result":"done"}]}]})");
  REQUIRE(session.lines.size() == 2);
  CHECK(session.lines[1].contains(
      R"("message":{"role":"toolResult","toolCallId":"c","toolName":"ls","content":[{"type":"text","text":"done"}]})"));
}

TEST_CASE("what people deleted or edited is exported as they left it") {
  CollectedSession session = read_back(
      "json",
      R"({"metadata":{"id":"s1"},"messages":[{"role":"user","content":"secret"},{"role":"user","content":"old"}]})");
  const auto writer = formats::write_json({.id = "s1"});
  const transcripts::ShownChange deleted{.deleted = true};
  const transcripts::ShownChange edited{.edit = R"({"text":"new"})"};
  std::string out;
  for (const bool survey : {true, false}) {
    for (std::uint64_t seq = 0; seq < 2; ++seq) {
      const formats::StoredEntry entry{.seq = seq, .line = session.lines[seq], .change = seq == 0 ? &deleted : &edited};
      if (survey) {
        writer->survey(entry);
      } else {
        writer->message(out, entry);
      }
    }
    if (survey) out = *writer->begin();
  }
  CHECK_FALSE(out.contains("secret"));
  CHECK(out.contains(R"("messageCount":1,"firstMessage":"new")"));
  CHECK(out.contains(R"("content":"new")"));
}

TEST_CASE("firstMessage has 200 code points") {
  std::string text;
  for (int at = 0; at < 300; ++at) text += "é";
  const CollectedSession session = read_back(
      "json", fmt::format(R"({{"metadata":{{"id":"s1"}},"messages":[{{"role":"user","content":"{}"}}]}})", text));
  CHECK(document("json", session).contains("\"firstMessage\":\"" + text.substr(0, 400) + "\""));
}

TEST_CASE("transcripts one after another are read with where they belong") {
  CollectingSink sink;
  const std::string text =
      R"({"type":"session","version":3,"id":"a","cwd":"/w","sessiond":{"key":"agent:main:main","entry":{"name":"n"}}})"
      "\n{\"type\":\"message\",\"id\":\"1\"}\nnot JSON\n"
      R"({"type":"session","id":"a","sessiond":{"topic":"42"}})"
      "\n\n"
      R"({"type":"session","id":"../b"})"
      "\nlost\n"
      R"({"type":"session","id":"c"})";
  REQUIRE(formats::read_jsonl(text, sink));
  REQUIRE(sink.sessions.size() == 3);
  CHECK(sink.sessions[0].head.header == R"({"type":"session","version":3,"id":"a","cwd":"/w"})");
  CHECK(sink.sessions[0].head.key == "agent:main:main");
  CHECK(sink.sessions[0].head.entry == R"({"name":"n"})");
  CHECK(sink.sessions[0].lines == std::vector<std::string>{R"({"type":"message","id":"1"})", "not JSON"});
  CHECK(sink.sessions[1].head.topic == "42");
  CHECK(sink.sessions[1].lines == std::vector<std::string>{""});
  CHECK(sink.sessions[2].ended);
  REQUIRE(sink.skips.size() == 1);
  CHECK(sink.skips[0].id == "../b");
  CHECK(sink.skips[0].why.starts_with("line 6: /id: "));
  for (const CollectedSession& session : sink.sessions) {
    const auto again = formats::read_header(formats::header_with(session.head));
    REQUIRE(again);
    CHECK(again->header == session.head.header);
    CHECK(again->key == session.head.key);
    CHECK(again->topic == session.head.topic);
    CHECK(again->entry == session.head.entry);
  }
}

TEST_CASE("an index names its sessions") {
  const std::string text = std::string(formats::index_begin) +
                           formats::index_element({.id = "a", .entry = R"({"name":"n","messageCount":3})"}) + "," +
                           formats::index_element({.id = "b"}) + formats::index_end(0);
  const auto read = formats::read_index(text);
  REQUIRE(read);
  REQUIRE(read->size() == 2);
  CHECK(read->front().name == "n");
  CHECK_FALSE(read->front().description);
  CHECK(text.contains(R"("messageCount":3)"));
}

TEST_CASE("a message with more files than a manager keeps is not exported to it") {
  CollectedSession session = read_back("manager", managed(10));
  session.lines[1].replace(session.lines[1].find("\"attachments\":["), 15, "\"attachments\":[1,");
  const auto refused = try_document("manager", session);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().detail == "message 00000001 has 11 files, and this format has room for 10");
}
