#include "policy/context/sendable.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/unit/policy/context/messages.hpp"

using namespace sessiond;
using namespace sessiond::context;
using namespace sessiond::testing;

TEST_CASE("nothing blank is shown") {
  struct Case {
    std::string message;
    std::string content;   // as it is shown; empty: the message is left out
    std::string repaired;  // nothing: it is shown as it is
  };
  const std::string thinking = R"({"type":"thinking","thinking":"hm","thinkingSignature":"s"})";
  const std::string image = R"({"type":"image","data":"x","mimeType":"image/png"})";
  const std::vector<Case> cases{
      {user("hi"), R"("hi")", ""},
      {user(""), "", "blank_message"},
      {user(" \n\t"), "", "blank_message"},
      {R"({"role":"user","content":"\u2003\u00a0\n"})", "", "blank_message"},
      {R"({"role":"user","content":" \u2003\u200b"})", R"(" \u2003\u200b")", ""},
      {R"({"role":"user"})", "", "blank_message"},
      {R"({"role":"user","content":null})", "", "blank_message"},
      {R"({"role":"user","text":"said"})", R"("said")", "blank_text"},
      {user_parts(""), "", "blank_message"},
      {user_parts(text_part("") + "," + text_part("a") + "," + text_part(" ")), "[" + text_part("a") + "]",
       "blank_text"},
      {user_parts(image), "[" + image + "]", ""},
      {user_parts(text_part(" ") + "," + image), "[" + image + "]", "blank_text"},
      {R"({"role":"user","content":"","attachments":[{"type":"image","url":"https://a/b"}]})", R"("[image]")",
       "blank_text"},
      {R"({"role":"user","content":[{"type":"text","text":""}],"attachments":[{"type":"file","name":"a \"b\".pdf"},{"type":"audio"}]})",
       "[" + text_part("[file: a \"b\".pdf]\n[file]") + "]", "blank_text"},
      {R"({"role":"user","content":"see","attachments":[{"type":"image"}]})", R"("see")", ""},
      {assistant(""), "", "blank_message"},
      {calls(""), "", "blank_message"},
      {calls(thinking), "", "blank_message"},
      {calls(thinking + "," + text_part("\n\n")), "", "blank_message"},
      {calls(thinking + "," + text_part("a")), "[" + thinking + "," + text_part("a") + "]", ""},
      {calls(text_part("") + "," + pi_call("c")), "[" + pi_call("c") + "]", "blank_text"},
      {calls(thinking + "," + pi_call("c")), "[" + thinking + "," + pi_call("c") + "]", ""},
      {openai_call("c"), "null", ""},
      {R"({"role":"assistant","content":"","tool_calls":[{"id":"c","function":{"name":"ls","arguments":"{}"}}]})",
       "null", "blank_text"},
  };
  for (const Case& one : cases) {
    CAPTURE(one.message);
    const std::vector<Line> lines = lines_of({one.message});
    Rows rows;
    std::vector<Repaired> repaired;
    add_rows(rows, lines, true, repaired);
    CHECK(whys(repaired) == (one.repaired.empty() ? std::vector<std::string>() : std::vector{"e0 " + one.repaired}));
    REQUIRE(rows.all.size() == (one.content.empty() ? 0 : 1));
    if (rows.all.empty()) continue;
    const std::string shown = to_json(rows.all[0]);
    CHECK(json::find(shown, "content") == one.content);
    CHECK_FALSE(json::find(shown, "text"));  // it is in the content
    CHECK(bool(json::check(shown)));
    const Entry again = read_entry("message", rows.all[0].entry.message);
    CHECK(int(again.fit) == int(Fit::as_it_is));
    CHECK(again.tokens == read_entry("message", one.message).tokens);
  }
}

TEST_CASE("a result without any output says so") {
  struct Case {
    std::string message, content;
  };
  const std::string nothing = "[" + text_part("(no output)") + "]";
  const std::string image = R"({"type":"image","data":"x","mimeType":"image/png"})";
  const std::vector<Case> cases{
      {result("c", ""), nothing},
      {result("c", " \n"), nothing},
      {R"({"role":"toolResult","toolCallId":"c","content":[]})", nothing},
      {R"({"role":"toolResult","toolCallId":"c"})", "\"(no output)\""},
      {R"({"role":"toolResult","toolCallId":"c","text":"said"})", R"("said")"},
      {openai_result("c", ""), "\"(no output)\""},
      {R"({"role":"toolResult","toolCallId":"c","content":[{"type":"text","text":""},)" + image + "]}",
       "[" + image + "]"},
      {user_parts(tool_result("c", "")), R"x([{"type":"tool_result","tool_use_id":"c","content":"(no output)"}])x"},
      {user_parts(R"({"type":"tool_result","tool_use_id":"c"})"),
       R"x([{"type":"tool_result","tool_use_id":"c","content":"(no output)"}])x"},
      {user_parts(
           R"({"type":"tool_result","tool_use_id":"c","content":[{"type":"text","text":" "},{"type":"text","text":"a"}]})"),
       R"([{"type":"tool_result","tool_use_id":"c","content":[{"type":"text","text":"a"}]}])"},
  };
  for (const Case& one : cases) {
    CAPTURE(one.message);
    const Entry entry = read_entry("message", one.message);
    REQUIRE(int(entry.fit) == int(Fit::mended));
    const std::string shown = mended(entry);
    CHECK(json::find(shown, "content") == one.content);
    CHECK_FALSE(json::find(shown, "text"));  // it is in the content
    const Entry again = read_entry("message", shown);
    CHECK(int(again.fit) == int(Fit::as_it_is));
    CHECK(again.tokens == entry.tokens);
    REQUIRE(again.results.size() == 1);
    CHECK(again.results[0].tokens == entry.results[0].tokens);
  }
}
