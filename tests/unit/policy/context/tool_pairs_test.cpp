#include "policy/context/tool_pairs.hpp"

#include <doctest/doctest.h>

#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/policy/context/messages.hpp"

using namespace sessiond;
using namespace sessiond::context;
using namespace sessiond::testing;

namespace {

using Strings = std::vector<std::string>;

// No result stands without its call, and each call has one result before anything but results follows.
void check_valid(const Rows& rows) {
  Strings open;
  for (const Row& row : rows.all) {
    CHECK(bool(json::check(to_json(row))));
    for (const ToolResult& one : row.entry.results) {
      const auto call = std::ranges::find(open, one.call_id);
      CHECK_MESSAGE(call != open.end(), one.call_id);
      if (call != open.end()) open.erase(call);
    }
    if (row.entry.role != Role::tool) CHECK_MESSAGE(open.empty(), to_json(row));
    for (const ToolCall& one : row.entry.calls) open.push_back(one.id);
  }
  CHECK(open.empty());
}

}  // namespace

TEST_CASE("each call has one result, directly behind the message that made it") {
  struct Case {
    std::string_view name;
    Strings messages, ids, repaired;
  };
  const std::vector<Case> cases{
      {"nothing to do", {user(), call("c1"), result("c1"), assistant()}, {"e0", "e1", "e2", "e3"}, {}},
      {"missing", {user(), call("c1"), user()}, {"e0", "e1", "made", "e2"}, {"c1 missing_result"}},
      {"missing before another call",
       {user(), call("c1"), call("c2"), result("c2")},
       {"e0", "e1", "made", "e2", "e3"},
       {"c1 missing_result"}},
      {"orphan", {user(), result("x"), assistant()}, {"e0", "e2"}, {"x orphan_result"}},
      {"orphan at the beginning", {result("x"), user()}, {"e1"}, {"x orphan_result"}},
      {"moved", {user(), call("c1"), assistant(), result("c1")}, {"e0", "e1", "e3", "e2"}, {"c1 moved_result"}},
      {"moved over a synthetic message",
       {user(), call("c1"), synthetic(), result("c1")},
       {"e0", "e1", "e3", "e2"},
       {"c1 moved_result"}},
      {"behind the next person's message",
       {user(), call("c1"), user(), result("c1")},
       {"e0", "e1", "e3", "e2"},
       {"c1 moved_result"}},
      {"behind what several people and the model said",
       {user(), call("c1"), user("a"), assistant(), user("b"), result("c1"), user("c")},
       {"e0", "e1", "e5", "e2", "e3", "e4", "e6"},
       {"c1 moved_result"}},
      {"in place of one that was made",
       {user(), call("c1"), made_result("c1"), user(), result("c1")},
       {"e0", "e1", "e4", "e3"},
       {"c1 late_result"}},
      {"made, where there is a real one",
       {user(), call("c1"), result("c1"), made_result("c1")},
       {"e0", "e1", "e2"},
       {"c1 duplicate_result"}},
      {"parallel calls, any order",
       {calls(pi_call("c1") + "," + pi_call("c2")), result("c2"), result("c1"), user()},
       {"e0", "e1", "e2", "e3"},
       {}},
      {"parallel calls, one without a result",
       {calls(pi_call("c1") + "," + pi_call("c2")), result("c2"), user()},
       {"e0", "e1", "made", "e2"},
       {"c1 missing_result"}},
      {"an id again in another turn",
       {user(), call("c1"), result("c1"), user(), call("c1"), result("c1")},
       {"e0", "e1", "e2", "e3", "e4", "e5"},
       {"c1 renamed_call c1-2"}},
      {"an id again within a turn",
       {user(), call("c1"), result("c1"), call("c1"), result("c1")},
       {"e0", "e1", "e2", "e3", "e4"},
       {"c1 renamed_call c1-2"}},
      {"an id again in another turn, the first without a result",
       {user(), call("c1"), user(), call("c1"), result("c1")},
       {"e0", "e1", "made", "e2", "e3", "e4"},
       {"c1 missing_result", "c1 renamed_call c1-2"}},
      {"a second result",
       {user(), call("c1"), result("c1"), result("c1")},
       {"e0", "e1", "e2"},
       {"c1 duplicate_result"}},
      {"a second result in the next turn",
       {user(), call("c1"), result("c1"), user(), result("c1")},
       {"e0", "e1", "e2", "e3"},
       {"c1 duplicate_result"}},
      {"OpenAI, missing", {openai_call("c1"), user()}, {"e0", "made", "e1"}, {"c1 missing_result"}},
      {"OpenAI, orphan", {openai_result("c1"), user()}, {"e1"}, {"c1 orphan_result"}},
      {"Anthropic", {calls(tool_use("c1")), user_parts(tool_result("c1")), assistant()}, {"e0", "e1", "e2"}, {}},
      {"Anthropic, orphan", {user_parts(tool_result("c1")), assistant()}, {"e1"}, {"c1 orphan_result"}},
      {"Anthropic, missing", {calls(tool_use("c1")), assistant()}, {"e0", "made", "e1"}, {"c1 missing_result"}},
      {"the last call of all", {user(), call("c1")}, {"e0", "e1", "made"}, {"c1 missing_result"}},
      {"nothing", {}, {}, {}},
  };
  for (const Case& one : cases) {
    CAPTURE(one.name);
    const std::vector<Line> lines = lines_of(one.messages);
    Rows rows = rows_of(lines);
    CHECK(whys(match_pairs(rows)) == one.repaired);
    CHECK(ids_of(rows) == one.ids);
    check_valid(rows);
    CHECK(match_pairs(rows).empty());  // nothing is left to do
  }
}

TEST_CASE("ids of calls are unique, not empty, and of characters that providers take") {
  struct Case {
    Strings messages, shown;  // the ids, of calls and results in their order
  };
  const std::string long_id(70, 'x');
  const std::vector<Case> cases{
      {{call("exec_0"), result("exec_0"), call("exec_0"), result("exec_0")},
       {"exec_0", "exec_0", "exec_0-2", "exec_0-2"}},
      {{call("exec_0"), call("exec_0-2"), call("exec_0"), call("exec_0-2")},
       {"exec_0", "exec_0", "exec_0-2", "exec_0-2", "exec_0-3", "exec_0-3", "exec_0-2-2", "exec_0-2-2"}},
      {{call(""), result(""), call(""), result("")}, {"call", "call", "call-2", "call-2"}},
      {{call("functions.exec:0"), result("functions.exec:0")}, {"functions_exec_0", "functions_exec_0"}},
      {{call(long_id), result(long_id), call(long_id)},
       {long_id.substr(0, 64), long_id.substr(0, 64), long_id.substr(0, 43) + "-2", long_id.substr(0, 43) + "-2"}},
      {{openai_call("a b"), openai_result("a b")}, {"a_b", "a_b"}},
      {{calls(tool_use("a.b") + "," + tool_use("a.b")),
        user_parts(tool_result("a.b", "1") + "," + tool_result("a.b", "2") + "," + text_part("go on"))},
       {"a_b", "a_b-2", "a_b", "a_b-2"}},
      {{calls(R"({"type":"toolCall","name":"ls"})"), result("")}, {"call", "call"}},
      {{R"({"role":"assistant","content":null,"tool_calls":[{"function":{"name":"ls","arguments":"{}"}}]})",
        R"({"role":"tool","content":"x"})"},
       {"call", "call"}},
  };
  for (const Case& one : cases) {
    CAPTURE(one.messages);
    const std::vector<Line> lines = lines_of(one.messages);
    Rows rows = rows_of(lines);
    match_pairs(rows);
    check_valid(rows);
    Strings shown;
    for (const Row& row : rows.all) {
      for (const ToolCall& each : row.entry.calls) shown.push_back(each.id);
      for (const ToolResult& each : row.entry.results) shown.push_back(each.call_id);
    }
    CHECK(shown == one.shown);
  }
}

TEST_CASE("a person's text beside results stays, and results beside it that have no call go") {
  struct Case {
    std::string_view name;
    Strings messages;
    Strings texts;  // of the last row: its text parts
    Strings repaired;
  };
  const std::vector<Case> cases{
      {"both stay", {calls(tool_use("c1")), user_parts(tool_result("c1") + "," + text_part("go on"))}, {"go on"}, {}},
      {"the orphan goes", {user_parts(tool_result("x") + "," + text_part("go on"))}, {"go on"}, {"x orphan_result"}},
      {"one of two goes",
       {calls(tool_use("c1")), user_parts(tool_result("c1") + "," + tool_result("x") + "," + text_part("go on"))},
       {"go on"},
       {"x orphan_result"}},
  };
  for (const Case& one : cases) {
    CAPTURE(one.name);
    const std::vector<Line> lines = lines_of(one.messages);
    Rows rows = rows_of(lines);
    CHECK(whys(match_pairs(rows)) == one.repaired);
    REQUIRE_FALSE(rows.all.empty());
    const std::string last = to_json(rows.all.back());
    CAPTURE(last);
    CHECK(bool(json::check(last)));
    Strings texts;
    for (const std::string_view part : json::elements(json::find(last, "content").value_or("[]")))
      if (json::string_at(part, "type") == "text") texts.push_back(json::string_at(part, "text").value_or(""));
    CHECK(texts == one.texts);
    CHECK(last.find("\"x\"") == std::string::npos);
  }
}

TEST_CASE("words that came with results stand behind all results") {
  const std::vector<Line> lines =
      lines_of({calls(tool_use("c1") + "," + tool_use("c2")), user_parts(tool_result("c1") + "," + text_part("A")),
                user_parts(tool_result("c2") + "," + text_part("B"))});
  Rows rows = rows_of(lines);
  match_pairs(rows);
  check_valid(rows);
  std::string all;
  for (const Row& row : rows.all) all += to_json(row) + "\n";
  CAPTURE(all);
  CHECK(all.find("\"c2\",\"content\"") < all.find("\"A\""));
  CHECK(all.find("\"A\"") < all.find("\"B\""));
}

TEST_CASE("in a message the results come before the words") {
  const auto lines = lines_of({user(), calls(tool_use("c1") + "," + tool_use("c2")),
                               user_parts(text_part("wait") + "," + tool_result("c1") + "," + text_part("and") + "," +
                                          tool_result("c2") + "," + text_part("go on"))});
  Rows rows = rows_of(lines);
  CHECK(whys(match_pairs(rows)) == Strings{"c1 moved_result", "c2 moved_result"});
  CHECK(rows.all[2].entry.content == "[" + tool_result("c1") + "," + tool_result("c2") + "," + text_part("wait") + "," +
                                         text_part("and") + "," + text_part("go on") + "]");
  CHECK(!rows.all[2].entry.person);
  CHECK(match_pairs(rows).empty());
}

TEST_CASE("a missing result beside a person's text comes before the text") {
  const std::vector<Line> lines = lines_of(
      {calls(tool_use("c1") + "," + tool_use("c2")), user_parts(tool_result("c1") + "," + text_part("go on"))});
  Rows rows = rows_of(lines);
  CHECK(whys(match_pairs(rows)) == Strings{"c2 missing_result"});
  std::string all;
  for (const Row& row : rows.all) all += to_json(row) + "\n";
  CAPTURE(all);
  CHECK(all.find("\"c1\"") != std::string::npos);
  CHECK(all.find("No result: the call was interrupted.") < all.find("go on"));
}

TEST_CASE("an interrupted call is answered as its caller spells results") {
  for (const Spelling spelling : {Spelling::pi, Spelling::openai, Spelling::anthropic}) {
    const std::string message = interrupted_result({.id = "c \"1\"", .name = "l\\s", .spelling = spelling});
    CAPTURE(message);
    REQUIRE(bool(json::check(message)));
    const Entry entry = read_entry("message", message);
    CHECK(int(entry.role) == int(Role::tool));
    REQUIRE(entry.results.size() == 1);
    CHECK(entry.results[0].call_id == "c \"1\"");
    CHECK(text_points(entry.results[0].content) == 36);
    CHECK(entry.tokens == interrupted_tokens);
    CHECK(message.find("No result: the call was interrupted.") != std::string::npos);
    switch (spelling) {
      case Spelling::pi:
        CHECK(json::string_at(message, "role") == "toolResult");
        CHECK(json::find(message, "isError") == "true");
        CHECK(entry.results[0].name == "l\\s");
        break;
      case Spelling::openai:
        CHECK(json::string_at(message, "role") == "tool");
        break;
      case Spelling::anthropic:
        CHECK(json::string_at(message, "role") == "user");
        CHECK(message.find("\"is_error\":true") != std::string::npos);
    }
  }
}

TEST_CASE("a message with very many results takes time linear in them") {
  constexpr std::size_t many = 8'000;
  std::string made;
  std::string given;
  for (std::size_t i = 0; i < many; ++i) {
    made += (i == 0 ? "" : ",") + tool_use(fmt::format("c{}", i));
    given += (i == 0 ? "" : ",") + tool_result(fmt::format("c{}", many - 1 - i));
  }
  const std::vector<Line> lines = lines_of({calls(made), assistant(), user_parts(given)});
  const std::clock_t begin = std::clock();
  Rows rows = rows_of(lines);
  CHECK(match_pairs(rows).size() == many);  // each was moved to its call
  CHECK(rows.all.size() == many + 2);
  const Conversation conversation = talk({calls(made), user_parts(given)});
  CHECK(measure(conversation, 3).messages == 2);
  // Long ids that differ at their ends only, each twice; and results that were made, each replaced.
  std::string same, made_ones, real_ones;
  for (std::size_t i = 0; i < many; ++i) {
    const std::string comma = i == 0 ? "" : ",";
    same += comma + tool_use(fmt::format("{}{:06}", std::string(58, 'x'), i));
    made_ones += comma + tool_result(fmt::format("c{}", i), "none");
    real_ones += comma + tool_result(fmt::format("c{}", i), "real");
  }
  const std::vector<Line> same_lines = lines_of({calls(same), calls(same)});
  Rows twice = rows_of(same_lines);
  CHECK(std::ranges::count(match_pairs(twice), std::string_view("renamed_call"), &Repaired::why) == many);
  const std::vector<Line> made_lines =
      lines_of({calls(made), fmt::format(R"({{"role":"user","synthetic":true,"content":[{}]}})", made_ones),
                user_parts(real_ones)});
  Rows replaced = rows_of(made_lines);
  CHECK(std::ranges::count(match_pairs(replaced), std::string_view("late_result"), &Repaired::why) == many);
  CHECK(std::clock() - begin < 20 * CLOCKS_PER_SEC);  // quadratic time would be minutes, of the processor
}

TEST_CASE("whatever calls and results come, in any order, they match afterwards") {
  std::mt19937 random(7);
  const auto below = [&random](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  for (int round = 0; round < 3000; ++round) {
    Strings messages;
    const std::size_t count = below(12);
    while (messages.size() < count) {
      const std::string id = fmt::format("c{}", below(4));
      const std::string other = fmt::format("d{}", below(4));
      switch (below(9)) {
        case 0:
          messages.push_back(user());
          break;
        case 1:
          messages.push_back(assistant());
          break;
        case 2:
          messages.push_back(synthetic());
          break;
        case 3:
          messages.push_back(call(id));
          break;
        case 4:
          messages.push_back(calls(pi_call(id) + "," + pi_call(other)));
          break;
        case 5:
          messages.push_back(result(other));
          break;
        case 6:
          messages.push_back(made_result(id));
          break;
        default:
          messages.push_back(result(id));
      }
    }
    CAPTURE(messages);
    const std::vector<Line> lines = lines_of(messages);
    Rows rows = rows_of(lines);
    match_pairs(rows);
    check_valid(rows);
    CHECK(match_pairs(rows).empty());
    // Messages of people and the model stay, in their order.
    Strings kept;
    Strings given;
    for (const Row& row : rows.all)
      if (row.entry.role != Role::tool) kept.push_back(row.id);
    for (const Line& line : lines)
      if (read_entry(line.type, line.body).role != Role::tool) given.push_back(line.id);
    CHECK(kept == given);
  }
}
