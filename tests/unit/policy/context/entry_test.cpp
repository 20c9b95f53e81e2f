#include "policy/context/entry.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/unit/policy/context/messages.hpp"

using namespace sessiond;
using namespace sessiond::context;
using namespace sessiond::testing;

namespace {

Entry message(std::string_view body) { return read_entry("message", body); }

}  // namespace

TEST_CASE("an entry's role says who speaks, and whether a model is shown it") {
  struct Case {
    std::string_view type, body;
    Role role;
    bool person, synthetic, summary, checkpoint;
  };
  const std::vector<Case> cases{
      {"message", R"({"role":"user","content":"a"})", Role::user, true, false, false, false},
      {"message", R"({"role":"user","content":[{"type":"text","text":"a"}]})", Role::user, true, false, false, false},
      {"message", R"({"role":"user","content":"a","synthetic":true})", Role::user, false, true, false, false},
      {"message", R"({"role":"user","content":"a","synthetic":false})", Role::user, true, false, false, false},
      {"message", R"({"role":"assistant","content":"a"})", Role::assistant, false, false, false, false},
      {"message", R"({"role":"assistant","content":"[Context Summary] a","summary":true})", Role::assistant, false,
       false, true, true},
      {"message", R"({"role":"system","content":"a"})", Role::system, false, false, false, false},
      {"message", R"({"role":"toolResult","toolCallId":"c","content":[]})", Role::tool, false, false, false, false},
      {"message", R"({"role":"tool","tool_call_id":"c","content":"a"})", Role::tool, false, false, false, false},
      {"message", R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"a"}]})", Role::tool,
       false, false, false, false},
      {"message",
       R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"a"},{"type":"text","text":"b"}]})",
       Role::user, true, false, false, false},
      {"message", R"({"role":"narrator","content":"a"})", Role::none, false, false, false, false},
      {"message", R"({"content":"a"})", Role::none, false, false, false, false},
      {"message", R"({"role":7,"content":"a"})", Role::none, false, false, false, false},
      {"custom", R"({"role":"user","content":"a"})", Role::none, false, false, false, false},
      {"label", R"({"label":"a"})", Role::none, false, false, false, false},
      {"session_info", R"({"name":"a"})", Role::none, false, false, false, false},
      {"unreadable", R"({})", Role::none, false, false, false, false},
      {"custom_message", R"({"customType":"a","content":"b"})", Role::user, false, true, false, false},
      {"branch_summary", R"({"summary":"b"})", Role::user, false, true, false, false},
  };
  for (const Case& one : cases) {
    CAPTURE(one.type);
    CAPTURE(one.body);
    const Entry entry = read_entry(one.type, one.body);
    CHECK(int(entry.role) == int(one.role));
    CHECK(entry.person == one.person);
    CHECK(entry.synthetic == one.synthetic);
    CHECK(entry.summary == one.summary);
    CHECK(entry.checkpoint == one.checkpoint);
  }
  CHECK(read_entry("compaction", R"({"summary":"a","firstKeptEntryId":"b"})").checkpoint);
}

TEST_CASE("names are read with their escapes resolved") {
  const Entry call = read_entry(
      "message",
      R"({"r\u006fle":"assistant","c\u006fntent":[{"typ\u0065":"toolCall","\u0069d":"c1","n\u0061me":"ls","\u0061rguments":{}}],"us\u0061ge":{"\u0069nput":7},"m\u006fdel":"m"})");
  CHECK(int(call.role) == int(Role::assistant));
  REQUIRE(call.calls.size() == 1);
  CHECK(call.calls[0].id == "c1");
  CHECK(call.calls[0].name == "ls");
  CHECK(call.model == "\"m\"");
  REQUIRE(call.usage.has_value());
  CHECK(call.usage->input == 7);
  const Entry result = read_entry(
      "message", R"({"role":"user","content":[{"type":"tool_result","tool_use_\u0069d":"c1","c\u006fntent":"abcd"}]})");
  REQUIRE(result.results.size() == 1);
  CHECK(result.results[0].call_id == "c1");
  CHECK(result.tokens == 1);
}

TEST_CASE("calls are read in each provider's spelling") {
  struct Case {
    std::string body;
    std::vector<std::string> calls;  // id, name, arguments
    Spelling spelling;
  };
  const std::vector<Case> cases{
      {call("c1", "ls", R"({"a":1})"), {R"(c1 ls {"a":1})"}, Spelling::pi},
      {calls(text_part("so") + "," + pi_call("c1") + "," + pi_call("c2", "cat")),
       {"c1 ls {}", "c2 cat {}"},
       Spelling::pi},
      {openai_call("c1", "ls", R"({"a":1})"), {R"(c1 ls "{\"a\":1}")"}, Spelling::openai},
      {R"({"role":"assistant","content":"a","tool_calls":[{"id":"c1","function":{"name":"ls","arguments":""}},{"id":"c2","function":{"name":"cat","arguments":"{}"}}]})",
       {R"(c1 ls "")", R"(c2 cat "{}")"},
       Spelling::openai},
      {calls(tool_use("c1", "ls", R"({"a":[1,2]})")), {R"(c1 ls {"a":[1,2]})"}, Spelling::anthropic},
      {R"({"role":"assistant","content":[{"type":"toolCall","id":"\u0063\"","name":"l\\s","arguments":{}}]})",
       {R"(c" l\s {})"},
       Spelling::pi},
      {R"({"role":"assistant","content":[7,"toolCall",null,{},[],{"type":"thinking","thinking":"a"}]})",
       {},
       Spelling::pi},
      {R"({"role":"assistant","tool_calls":7})", {}, Spelling::pi},
      {R"({"role":"user","content":[{"type":"toolCall","id":"c1","name":"ls","arguments":{}}]})", {}, Spelling::pi},
  };
  for (const Case& one : cases) {
    CAPTURE(one.body);
    const Entry entry = message(one.body);
    std::vector<std::string> found;
    for (const ToolCall& each : entry.calls) {
      found.push_back(fmt::format("{} {} {}", each.id, each.name, each.arguments));
      CHECK(int(each.spelling) == int(one.spelling));
    }
    CHECK(found == one.calls);
  }
}

TEST_CASE("results are read in each provider's spelling") {
  struct Case {
    std::string body;
    std::vector<std::string> results;  // call, tool, content; then whether it is a part
  };
  const std::vector<Case> cases{
      {result("c1", "a", "ls"), {R"(c1 ls [{"type":"text","text":"a"}] 0)"}},
      {R"({"role":"toolResult","toolCallId":"c1","content":"a","isError":true})", {R"(c1  "a" 0)"}},
      {openai_result("c1", "a"), {R"(c1  "a" 0)"}},
      {user_parts(tool_result("c1", "a")), {R"(c1  "a" 1)"}},
      {user_parts(tool_result("c1", "a") + "," + text_part("x") + "," + tool_result("c2", "b")),
       {R"(c1  "a" 1)", R"(c2  "b" 1)"}},
      {user_parts(
           R"({"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"a"}],"is_error":true})"),
       {R"(c1  [{"type":"text","text":"a"}] 1)"}},
      {user(), {}},
      {call("c1"), {}},
  };
  for (const Case& one : cases) {
    CAPTURE(one.body);
    const Entry entry = message(one.body);
    std::vector<std::string> found;
    for (const ToolResult& each : entry.results)
      found.push_back(fmt::format("{} {} {} {}", each.call_id, each.name, each.content, int(!each.part.empty())));
    CHECK(found == one.results);
  }
}

TEST_CASE("an entry takes a quarter of its code points in tokens, an image 2000") {
  struct Case {
    std::string body;
    std::int64_t tokens;
  };
  const std::vector<Case> cases{
      {user(""), 0},
      {user("a"), 1},
      {user("abcd"), 1},
      {user("abcde"), 2},
      {user("éééé"), 1},
      {user("ééééé"), 2},
      {R"({"role":"user","content":"\ud83d\ude00\ud83d\ude00\u00e9\n"})", 1},
      {R"({"role":"user","content":"\ud83d\ude00\ud83d\ude00\u00e9\n\""})", 2},
      {user_parts(text_part("abcde")), 2},
      {calls(R"({"type":"thinking","thinking":"abcdefgh"})"), 2},
      {calls(pi_call("c1", "ls", R"({"a":1})")), 3},           // ls, and 7 of the arguments
      {calls(pi_call("c1", "ls", R"({ "a" : [1, 2] })")), 4},  // ls{"a":[1,2]} has 13
      {calls(tool_use("c1", "ls", R"({"a":1})")), 3},
      {openai_call("c1", "ls", R"({"a":1})"), 3},
      {result("c1", "abcdefgh"), 2},
      {openai_result("c1", "abcdefgh"), 2},
      {user_parts(tool_result("c1", "abcdefgh")), 2},
      {user_parts(R"({"type":"image","data":"AAAAAAAAAAAAAAAA","mimeType":"image/png"})"), 2000},
      {user_parts(text_part("abcde") + R"(,{"type":"image","data":"AAAA","mimeType":"image/png"})"), 2002},
      {R"({"role":"toolResult","toolCallId":"c","content":[{"type":"image","data":"A"},{"type":"image","data":"A"}]})",
       4000},
      {R"({"role":"user"})", 0},
      {R"({"role":"user","content":null})", 0},
      {R"({"role":"user","content":7})", 0},
  };
  for (const Case& one : cases) {
    CAPTURE(one.body);
    CHECK(message(one.body).tokens == one.tokens);
  }
  CHECK(tokens_of(0) == 0);
  CHECK(tokens_of(1) == 1);
  CHECK(tokens_of(4) == 1);
  CHECK(tokens_of(5) == 2);
}

TEST_CASE("code points of a string are counted as it is written") {
  struct Case {
    std::string_view inner;
    std::int64_t points;
  };
  const std::vector<Case> cases{
      {"", 0},
      {"abc", 3},
      {"é", 1},
      {"日本", 2},
      {"😀", 1},
      {R"(\u00e9)", 1},
      {R"(\u0000)", 1},
      {R"(\ud83d\ude00)", 1},
      {R"(\uD83D\uDE00)", 1},
      {R"(\ud83d\ude00\ud83d\ude00x)", 3},
      {R"(\ud83d)", 1},
      {R"(\ude00)", 1},
      {R"(\ud83d\ud83d)", 2},
      {R"(\ud83d\ud83d\ude00)", 2},
      {R"(\ude00\ud83d)", 2},
      {R"(\ud83dx)", 2},
      {R"(\ud83d\n)", 2},
      {R"(\ud83d\u0041)", 2},
      {R"(\\ud83d)", 6},
      {R"(\\\ud83d\ude00)", 2},
      {R"(\ud83d\\ude00)", 7},
      {R"(\n\t\"\\\/)", 5},
      {R"(\\\\n)", 3},
  };
  for (const Case& one : cases) {
    CAPTURE(one.inner);
    CHECK(code_points(one.inner) == one.points);
  }
}

TEST_CASE("the text of a result is all of its text parts, a newline between them") {
  struct Case {
    std::string_view content;
    std::int64_t points;
  };
  const std::vector<Case> cases{
      {R"("")", 0},
      {R"("abé")", 3},
      {R"("\ud83d\ude00")", 1},
      {R"([])", 0},
      {R"([{"type":"text","text":"ab"}])", 2},
      {R"([{"type":"text","text":"ab"},{"type":"text","text":"cde"}])", 6},
      {R"([{"type":"text","text":"ab"},{"type":"image","data":"AAAA"},{"type":"text","text":"cde"}])", 6},
      {R"([{"type":"image","data":"AAAA"}])", 0},
      {R"(null)", 0},
      {R"({})", 0},
      {"", 0},
  };
  for (const Case& one : cases) {
    CAPTURE(one.content);
    CHECK(text_points(one.content) == one.points);
  }
}

TEST_CASE("files of a message are its image and file parts and its attachments") {
  struct Case {
    std::string_view message;
    std::int64_t files;
  };
  const std::vector<Case> cases{
      {R"({"role":"user","content":"a"})", 0},
      {R"({"role":"user","content":[{"type":"text","text":"a"}]})", 0},
      {R"({"role":"user","content":[{"type":"image","data":"A"},{"type":"text","text":"a"},{"type":"file","url":"A"}]})",
       2},
      {R"({"role":"user","content":"a","attachments":[{},{},{}]})", 3},
      {R"({"role":"user","content":[{"type":"image","data":"A"}],"attachments":[{"name":"a"}]})", 2},
      {R"({"role":"user","content":[{"type":"image_url","image_url":{"url":"A"}}]})", 1},
      {R"({"role":"user","content":[{"type":"input_image"},{"type":"input_file"}]})", 2},
      {R"({"role":"user","content":[{"type":"document","source":{}}]})", 1},
      {R"({"role":"user","content":[7,null,"image",[],{}],"attachments":7})", 0},
      {R"({})", 0},
  };
  for (const Case& one : cases) {
    CAPTURE(one.message);
    CHECK(files_in(one.message) == one.files);
  }
}
