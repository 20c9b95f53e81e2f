#include <fmt/format.h>

#include "foreign_stores.hpp"

using namespace sessiond;
using namespace sessiond::testing;

namespace {

std::string user(const char* uuid, const char* parent, const char* content, const char* more = "") {
  return fmt::format(
             R"({{"type":"user","uuid":"{}","parentUuid":{},"timestamp":"2026-11-23T21:00:00.000Z","sessionId":"s",{}"message":{{"role":"user","content":{}}}}})",
             uuid, *parent == '\0' ? "null" : fmt::format("\"{}\"", parent), more, content) +
         "\n";
}

std::string reply(const char* uuid, const char* parent, const char* message, const char* part, const char* more = "") {
  return fmt::format(
             R"({{"type":"assistant","uuid":"{}","parentUuid":"{}","timestamp":"2026-11-23T21:00:01.000Z",{}"message":{{"id":"{}","role":"assistant","model":"claude-opus-4-5","content":[{}],"stop_reason":"tool_use","usage":{{"input_tokens":3,"output_tokens":4}}}}}})",
             uuid, parent, more, message, part) +
         "\n";
}

std::string result(const char* uuid, const char* parent, const char* call) {
  return user(uuid, parent,
              fmt::format(R"([{{"type":"tool_result","tool_use_id":"{}","content":"of {}"}}])", call, call).c_str());
}

CollectedSession read_one(const std::string& lines) {
  const TempDir dir(TempDir::On::memory);
  dir.write("projects/p/s.jsonl", lines);
  CollectingSink sink = collected(formats::read_claude_code, dir.path());
  REQUIRE(sink.sessions.size() == 1);
  return sink.sessions.front();
}

const char* const call_a = R"({"type":"tool_use","id":"a","name":"Bash","input":{"command":"a"}})";
const char* const call_b = R"({"type":"tool_use","id":"b","name":"Read","input":{}})";

}  // namespace

TEST_CASE("claude code: the sample that it wrote goes on at its last reply, behind its summary") {
  const CollectingSink sink = collected(formats::read_claude_code, foreign_data / "claude-code");
  REQUIRE(sink.sessions.size() == 1);
  const CollectedSession& session = sink.sessions.front();
  CHECK(session.head.id == "a9f637cd-42c2-4a96-8131-bc8f290ffc75");
  CHECK(json::string_at(session.head.header, "cwd") == "/home/ada/work");
  CHECK(json::string_at(session.head.entry, "model") == "claude-sonnet-4-5");
  CHECK(roles_of(path_to_leaf(session)) ==
        "user assistant toolResult assistant user assistant compaction user user user user assistant user assistant "
        "user assistant");
}

TEST_CASE("claude code: lines of one reply are one message, whose tokens count once") {
  const auto session =
      read_one(user("u", "", "\"hi\"") + reply("x", "u", "m", R"({"type":"thinking","thinking":"t","signature":"s"})") +
               reply("y", "x", "m", R"({"type":"text","text":"T"})") + reply("z", "y", "m", call_a) +
               result("r", "z", "a") + reply("w", "r", "m2", R"({"type":"text","text":"end"})"));
  CHECK(roles_of(path_to_leaf(session)) == "user assistant toolResult assistant");
  CHECK(session.lines.size() == 4);
  CHECK(session.lines[1].contains(
      R"([{"type":"thinking","thinking":"t","thinkingSignature":"s"},{"type":"text","text":"T"},{"type":"toolCall","id":"a","name":"Bash","arguments":{"command":"a"}}])"));
  CHECK(session.lines[1].contains(R"("totalTokens":7)"));
  CHECK(session.lines[2].contains(R"("toolName":"Bash")"));
}

TEST_CASE("claude code: calls at once have all their results on the path, wherever their lines stand") {
  for (const bool mixed : {false, true}) {
    const std::string replies =
        mixed ? reply("x", "u", "m", call_a) + result("ra", "x", "a") + reply("y", "x", "m", call_b)
              : reply("x", "u", "m", call_a) + reply("y", "x", "m", call_b) + result("ra", "x", "a");
    const auto session = read_one(user("u", "", "\"hi\"") + replies + result("rb", "y", "b") +
                                  reply("w", "rb", "m2", R"({"type":"text","text":"end"})"));
    const auto path = path_to_leaf(session);
    INFO(mixed);
    CHECK(roles_of(path) == (mixed ? "user assistant toolResult assistant toolResult assistant"
                                   : "user assistant toolResult toolResult assistant"));
    std::int64_t tokens = 0;
    for (const std::string& line : session.lines)
      if (const auto usage = json::find(*json::find(line, "message"), "usage"))
        tokens += *json::int_at(*usage, "totalTokens");
    CHECK(tokens == 14);
  }
}

TEST_CASE("claude code: lines of the program between those of a reply do not part it, and stand behind it") {
  const auto hook = [](const char* type, const char* uuid, const char* parent) {
    return fmt::format(R"({{"type":"{}","uuid":"{}","parentUuid":"{}","subtype":"informational","content":"ran"}})",
                       type, uuid, parent) +
           "\n";
  };
  const auto path_of = [](const std::string& lines) { return roles_of(path_to_leaf(read_one(lines))); };
  const std::string first = user("u", "", "\"hi\"") + reply("x", "u", "m", call_a);
  const std::string end = reply("w", "rb", "m2", R"({"type":"text","text":"end"})");
  const std::string results = result("ra", "x", "a") + result("rb", "y", "b") + end;
  for (const char* type : {"progress", "attachment", "system", "queue-operation"}) {
    INFO(type);
    const auto session = read_one(first + hook(type, "h", "x") + hook(type, "i", "h") + hook(type, "h", "x") +
                                  reply("y", "i", "m", call_b) + results);
    CHECK(roles_of(path_to_leaf(session)) == "user assistant toolResult toolResult assistant");
    CHECK(session.lines.size() == 7);  // a line whose uuid stands twice counts once
    CHECK(json::string_at(session.lines[2], "parentId") == "x");
    CHECK(json::string_at(session.lines[3], "parentId") == "h");
    CHECK(path_of(first + hook(type, "h", "x")) == "user assistant");
    // The first call was answered before the model had made the second, with a hook before or behind the answer.
    const std::string parted = "user assistant toolResult assistant toolResult assistant";
    CHECK(path_of(first + hook(type, "h", "x") + result("ra", "x", "a") + reply("y", "h", "m", call_b) +
                  result("rb", "y", "b") + end) == parted);
    CHECK(path_of(first + result("ra", "x", "a") + hook(type, "h", "x") + reply("y", "h", "m", call_b) +
                  result("rb", "y", "b") + end) == parted);
    // A result names the hook of its call.
    CHECK(path_of(first + reply("y", "x", "m", call_b) + hook(type, "h", "y") + result("ra", "x", "a") +
                  result("rb", "h", "b") + end) == "user assistant toolResult toolResult assistant");
  }
  // Lines that have no uuid, and a reply whose first line stands twice.
  CHECK(path_of(first + "{\"type\":\"file-history-snapshot\",\"snapshot\":{}}\n" + reply("y", "x", "m", call_b) +
                results) == "user assistant toolResult toolResult assistant");
  CHECK(path_of(first + reply("x", "u", "m", call_a) + reply("y", "x", "m", call_b) + results) ==
        "user assistant toolResult toolResult assistant");
}

TEST_CASE("claude code: a line between a compaction and its summary takes neither from the other") {
  const std::string talk = user("u", "", "\"hi\"") + reply("x", "u", "m", R"({"type":"text","text":"T"})");
  const std::string boundary =
      R"({"type":"system","subtype":"compact_boundary","uuid":"b","parentUuid":null,"logicalParentUuid":"x","compactMetadata":{"trigger":"auto","preTokens":123}})"
      "\n";
  const std::string hook = R"({"type":"progress","uuid":"h","parentUuid":"b","data":{}})"
                           "\n";
  const std::string summary = user("s", "b", "\"what was said\"", R"("isCompactSummary":true,)");
  const auto plain = read_one(talk + boundary + summary + user("v", "s", "\"on\""));
  const auto hooked = read_one(talk + boundary + hook + summary + user("v", "s", "\"on\""));
  CHECK(hooked.lines.size() == plain.lines.size() + 1);
  CHECK(roles_of(path_to_leaf(hooked)) == roles_of(path_to_leaf(plain)));
  CHECK(hooked.lines[2] == plain.lines[2]);
  CHECK(hooked.lines[2].contains(R"("tokensBefore":123)"));
  CHECK(read_one(talk + boundary + hook).lines.size() == 4);
}

TEST_CASE("claude code: a side chain is a branch, and the conversation goes on at the main one") {
  const auto session = read_one(user("u", "", "\"hi\"") + reply("x", "u", "m", R"({"type":"text","text":"T"})") +
                                user("side", "", "\"task\"", R"("isSidechain":true,)") +
                                reply("sr", "side", "ms", R"({"type":"text","text":"S"})", R"("isSidechain":true,)"));
  CHECK(roles_of(path_to_leaf(session)) == "user assistant");
  CHECK(session.lines.size() == 5);
}

TEST_CASE("claude code: a rewound conversation is two branches") {
  const auto session = read_one(user("u", "", "\"hi\"") + reply("x", "u", "m", R"({"type":"text","text":"T"})") +
                                user("old", "x", "\"old\"") + user("new", "x", "\"new\""));
  const auto path = path_to_leaf(session);
  CHECK(roles_of(path) == "user assistant user");
  CHECK(path.back().contains("\"new\""));
}

TEST_CASE("claude code: a subagent's file is a session of its own that names its parent") {
  const TempDir dir(TempDir::On::memory);
  dir.write("projects/p/s.jsonl", user("u", "", "\"hi\""));
  dir.write("projects/p/s/subagents/agent-1a2b.jsonl",
            user("v", "", "\"task\"", R"("isSidechain":true,"agentId":"1a2b",)"));
  const CollectingSink sink = collected(formats::read_claude_code, dir.path());
  REQUIRE(sink.sessions.size() == 2);
  CHECK(sink.sessions[0].head.id == "agent-1a2b");
  CHECK(json::string_at(sink.sessions[0].head.header, "parentSession") == "s.jsonl");
  CHECK(roles_of(path_to_leaf(sink.sessions[0])) == "user");
}

TEST_CASE("claude code: a file that is written is read again as what it was") {
  for (const auto& read :
       {std::pair<ReadStore, const char*>{formats::read_claude_code, "claude-code"}, {formats::read_codex, "codex"}}) {
    const CollectingSink before = collected(read.first, foreign_data / read.second);
    formats::ClaudeCodeFile file(before.sessions.front().head.id, "/home/ada/my work");
    CHECK(file.path().parent_path() == "projects/-home-ada-my-work");
    std::string lines;
    for (const std::string& line : before.sessions.front().lines) lines += file.lines(line);
    const TempDir dir;
    dir.write(file.path().native(), lines);
    const CollectingSink after = collected(formats::read_claude_code, dir.path());
    REQUIRE(after.sessions.size() == 1);
    CHECK(after.skips.empty());
    CHECK(after.sessions.front().head.id == before.sessions.front().head.id);
    CHECK(roles_of(path_to_leaf(after.sessions.front())) == roles_of(path_to_leaf(before.sessions.front())));
  }
  CHECK(formats::ClaudeCodeFile("s", "/home/andré/日😀").path().parent_path() == "projects/-home-andr-----");
  formats::ClaudeCodeFile named("my-session", "/");
  CHECK(named.session_id().size() == 36);
  CHECK(named.session_id() == formats::ClaudeCodeFile("my-session", "/").session_id());
}

TEST_CASE("claude code: a folder that lies too deep is named") {
  const TempDir dir(TempDir::On::memory);
  dir.write("projects/1/2/3/4/5/6/s.jsonl", user("u", "", "\"hi\""));
  const CollectingSink sink = collected(formats::read_claude_code, dir.path());
  CHECK(sink.sessions.empty());
  REQUIRE(sink.skips.size() == 1);
  CHECK(sink.skips.front().why.ends_with("/projects/1/2/3/4/5: lies deeper than sessions do; import it by itself"));
}

TEST_CASE("claude code: counts of tokens that no number holds") {
  const char* const counts =
      R"("usage":{"input_tokens":9223372036854775807,"output_tokens":1,"cache_read_input_tokens":-9223372036854775808})";
  std::string line = reply("a", "u", "m", R"({"type":"text","text":"x"})");
  line.replace(line.find(R"("usage":)"), std::string(R"("usage":{"input_tokens":3,"output_tokens":4})").size(), counts);
  const CollectedSession session = read_one(user("u", "", "\"hi\"") + line);
  CHECK(session.lines.back().contains(R"("output":1,"cacheRead":0,)"));
  CHECK(!session.lines.back().contains(":-"));
}

TEST_CASE("claude code: the file that tests/api/test_claude_code.py has Claude Code itself go on with") {
  const CollectingSink sink = collected(formats::read_codex, foreign_data / "codex");
  formats::ClaudeCodeFile file("from-codex", "/home/ada/work");
  std::string lines;
  for (const std::string& line : sink.sessions.front().lines) lines += file.lines(line);
  CHECK(lines == text_of_file(foreign_data / "claude-code-written" / file.path()));
}

TEST_CASE("claude code: a result that stands in a user's message is written") {
  formats::ClaudeCodeFile file("s", "/w");
  const std::string lines = file.lines(
      R"({"type":"message","id":"a","parentId":null,"message":{"role":"user","content":[{"type":"toolResult","toolCallId":"c","content":[{"type":"text","text":"bin"}],"isError":true}]}})");
  CHECK(lines.contains(
      R"([{"type":"tool_result","tool_use_id":"c","content":[{"type":"text","text":"bin"}],"is_error":true}])"));
}
