#include "policy/context/view.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/unit/policy/context/messages.hpp"

using namespace sessiond;
using namespace sessiond::context;
using namespace sessiond::testing;

namespace {

using Strings = std::vector<std::string>;

View shown(const Conversation& conversation, const ViewOptions& options = {}) {
  return view_of(conversation, options, {});
}
// Turns of a person's message and a reply.
Strings turns(std::size_t count) {
  Strings messages;
  for (std::size_t i = 0; i < count; ++i) {
    messages.push_back(user(fmt::format("q{}", i)));
    messages.push_back(assistant(fmt::format("a{}", i)));
  }
  return messages;
}
Conversation compacted(std::string_view summary = "S") {
  Conversation conversation;
  conversation.system = lines_of({system_says()});
  conversation.before = lines_of({user("q2"), assistant("a2")}, 5);
  conversation.checkpoint = compaction_line(7, summary, "e5");
  conversation.after = lines_of({user("q3"), assistant("a3")}, 8);
  return conversation;
}

}  // namespace

TEST_CASE("a view has the system messages, then what people, the model and tools said") {
  Conversation conversation = talk({system_says("one"), user(), call("c1"), result("c1"), system_says("two"),
                                    assistant(), R"({"role":"narrator","content":"a"})"});
  conversation.after.push_back(line_of(7, R"({"label":"x"})", "label"));
  conversation.after.push_back(line_of(8, R"({"customType":"x","content":"for the model"})", "custom_message"));
  conversation.after.push_back(line_of(9, R"({"customType":"x","data":1})", "custom"));
  conversation.after.push_back(line_of(10, R"({"summary":"of a branch"})", "branch_summary"));
  const View view = shown(conversation);
  REQUIRE(view.system.size() == 2);
  CHECK(json::string_at(view.system[0], "content") == "one");
  CHECK(json::string_at(view.system[1], "content") == "two");
  CHECK(ids_of(view.rows) == Strings{"e1", "e2", "e3", "e5", "e8", "e10"});
  CHECK(view.summary_rows == 0);
  CHECK(view.repaired.empty());
  CHECK(view.pruned.empty());
  for (const Row& row : view.rows.all) {
    const std::string text = to_json(row);
    CAPTURE(text);
    CHECK(bool(json::check(text)));
    CHECK(json::find(text, "entryIds") == fmt::format("[\"{}\"]", row.id));
  }
  const std::string custom = to_json(view.rows.all[4]);
  CHECK(json::string_at(custom, "role") == "user");
  CHECK(custom.find("for the model") != std::string::npos);
  const std::string branch = to_json(view.rows.all[5]);
  CHECK(json::string_at(branch, "role") == "user");
  CHECK(branch.find("of a branch") != std::string::npos);
}

TEST_CASE("a checkpoint is shown as a pair, or as the model's message alone") {
  for (const std::string_view summary : {"S", "[Context Summary] S", "S \"quoted\"\n😀"}) {
    CAPTURE(summary);
    const std::string expected = "[Context Summary] " + std::string(summary.starts_with("[Context") ? "S" : summary);
    const View pair = shown(compacted(summary));
    REQUIRE(pair.rows.all.size() == 6);
    CHECK(pair.summary_rows == 2);
    const std::string first = to_json(pair.rows.all[0]);
    CHECK(json::string_at(first, "role") == "user");
    CHECK(json::string_at(first, "content") == "The conversation so far was summarized.");
    CHECK(json::find(first, "synthetic") == "true");
    CHECK(json::find(first, "summary") == "true");
    const std::string second = to_json(pair.rows.all[1]);
    CHECK(json::string_at(second, "role") == "assistant");
    CHECK(json::string_at(second, "content") == expected);
    CHECK(json::find(second, "summary") == "true");
    CHECK(ids_of(pair.rows).back() == "e9");
    CHECK(ids_of(pair.rows)[2] == "e5");

    ViewOptions options;
    options.style = Style::assistant;
    const View alone = shown(compacted(summary), options);
    REQUIRE(alone.rows.all.size() == 5);
    CHECK(alone.summary_rows == 1);
    CHECK(json::string_at(to_json(alone.rows.all[0]), "content") == expected);
    CHECK(alone.system == pair.system);
  }
}

TEST_CASE("a pair of messages that summarise is a checkpoint, and its prefix is not doubled") {
  for (const std::string_view content :
       {R"("[Context Summary] S")", R"("S")", R"([{"type":"text","text":"[Context Summary] S"}])"}) {
    CAPTURE(content);
    Conversation conversation = compacted();
    conversation.before.clear();
    conversation.checkpoint = line_of(7, fmt::format(R"({{"role":"assistant","content":{},"summary":true}})", content));
    CHECK(summary_of(*conversation.checkpoint) == "S");
    const View view = shown(conversation);
    REQUIRE(view.rows.all.size() == 4);
    CHECK(view.summary_rows == 2);
    CHECK(json::string_at(to_json(view.rows.all[1]), "content") == "[Context Summary] S");
  }
}

TEST_CASE("the oldest whole turns are left out until few enough messages remain") {
  struct Case {
    Strings messages;
    std::int64_t most;
    Strings ids;
  };
  const Strings tools{user(), call("c1"), result("c1"), assistant(), user(), call("c2"), result("c2"), assistant()};
  const std::vector<Case> cases{
      {turns(3), 6, {"e0", "e1", "e2", "e3", "e4", "e5"}},
      {turns(3), 100, {"e0", "e1", "e2", "e3", "e4", "e5"}},
      {turns(3), 5, {"e2", "e3", "e4", "e5"}},
      {turns(3), 4, {"e2", "e3", "e4", "e5"}},
      {turns(3), 3, {"e4", "e5"}},
      {turns(3), 2, {"e4", "e5"}},
      {turns(3), 1, {"e4", "e5"}},
      {turns(3), 0, {"e4", "e5"}},
      {tools, 8, {"e0", "e1", "e2", "e3", "e4", "e5", "e6", "e7"}},
      {tools, 7, {"e4", "e5", "e6", "e7"}},
      {tools, 1, {"e4", "e5", "e6", "e7"}},
      {{user(), user(), assistant(), user(), user(), assistant()}, 4, {"e3", "e4", "e5"}},
      {{assistant(), assistant()}, 1, {"e0", "e1"}},
      {{}, 1, {}},
  };
  for (const Case& one : cases) {
    CAPTURE(one.messages);
    CAPTURE(one.most);
    ViewOptions options;
    options.max_messages = one.most;
    const View view = shown(talk(one.messages), options);
    CHECK(ids_of(view.rows) == one.ids);
    std::int64_t used = 0;
    for (const Row& row : view.rows.all) used += row.entry.tokens;
    CHECK(view.used == used);
  }
}

TEST_CASE("the summary stays when turns are left out") {
  ViewOptions options;
  options.max_messages = 1;
  const View view = shown(compacted(), options);
  CHECK(view.summary_rows == 2);
  REQUIRE(view.rows.all.size() == 4);
  CHECK(view.rows.all[0].entry.summary);
  CHECK(view.rows.all[1].entry.summary);
  CHECK(view.rows.all[2].id == "e8");
}

TEST_CASE("results are cut last, after pruning, and only in the view") {
  const std::string x60(60'000, 'x');
  Conversation conversation = talk({user(), call("c0"), result("c0", x60), assistant(), call("c1"),
                                    result("c1", std::string(40, 'y')), assistant(), assistant(), assistant()});
  ViewOptions options;
  options.prune = Prune::soft;
  options.max_tool_chars = 10;
  const View view = shown(conversation, options);
  CHECK(result_text(view.rows.all[2]) == "xxxxxxxxxx…[cut]");
  CHECK(result_text(view.rows.all[5]) == "yyyyyyyyyy…[cut]");
  REQUIRE(view.pruned.size() == 1);
  CHECK(view.pruned[0].from == 60'000);
  std::int64_t used = 0;
  for (const Row& row : view.rows.all) used += row.entry.tokens;
  CHECK(std::abs(view.used - used) <= 1);  // each removal is rounded up
  CHECK(conversation.after[2].body.find(x60) != std::string::npos);
}

TEST_CASE("pruned results of turns that are left out are not named") {
  const std::string x60(60'000, 'x');
  Strings messages;
  for (const std::string_view id : {"c0", "c1"})
    for (std::string& message : Strings{user(), call(id), result(id, x60), assistant(), assistant(), assistant()})
      messages.push_back(std::move(message));
  Conversation conversation = compacted();
  conversation.after = lines_of(messages, 8);
  ViewOptions options;
  options.prune = Prune::soft;
  const auto pruned = [&] {
    Strings ids;
    for (const Pruned& one : shown(conversation, options).pruned) ids.push_back(one.entry_id);
    return ids;
  };
  CHECK(pruned() == Strings{"e10", "e16"});
  options.max_messages = 6;
  CHECK(pruned() == Strings{"e16"});
}

TEST_CASE("pairs are made to match before old turns are left out") {
  const Conversation conversation = talk({user(), call("c1"), user(), result("c1"), assistant()});
  const View whole = shown(conversation);
  CHECK(ids_of(whole.rows) == Strings{"e0", "e1", "e3", "e2", "e4"});
  CHECK(whys(whole.repaired) == Strings{"c1 moved_result"});
  ViewOptions options;
  options.max_messages = 2;
  CHECK(ids_of(shown(conversation, options).rows) == Strings{"e2", "e4"});
}

TEST_CASE("kept entries that end between a call and its result are made to match") {
  Conversation conversation;
  conversation.before = lines_of({result("c1"), assistant()}, 3);
  conversation.checkpoint = compaction_line(5, "S", "e3");
  conversation.after = lines_of({user()}, 6);
  const View view = shown(conversation);
  CHECK(whys(view.repaired) == Strings{"c1 orphan_result"});
  CHECK(ids_of(view.rows).size() == 4);
}

TEST_CASE("a turn begins in rows as it does in the meter") {
  const std::vector<Line> lines =
      lines_of({user(), user(), assistant(), synthetic(), user(), call("c1"), result("c1"),
                user_parts(tool_result("c2")), user_parts(tool_result("c3") + "," + text_part("a"))});
  const Rows rows = rows_of(lines);
  std::vector<std::size_t> begins;
  for (std::size_t i = 0; i < rows.all.size(); ++i)
    if (begins_turn(rows.all, i)) begins.push_back(i);
  CHECK(begins == std::vector<std::size_t>{0, 4, 8});
}

TEST_CASE("further parts of a message are shown as one message with it") {
  const auto part = [](std::string_view parts, std::string_view more = "") {
    return fmt::format(R"({{"role":"assistant","content":[{}],"responseId":"r"{}}})", parts, more);
  };
  const std::string usage = R"(,"usage":{"input":50,"output":1},"stopReason":"stop")";
  const std::string calls_two = part(pi_call("c1") + "," + pi_call("c2"), R"(,"stopReason":"toolUse")");
  Conversation conversation = talk({user(), part(text_part("one"), usage), calls_two, result("c1"), result("c2")});
  conversation.after[2].id = "e1.2";
  const View view = shown(conversation);
  CHECK(ids_of(view.rows) == Strings{"e0", "e1", "e3", "e4"});
  const std::string text = to_json(view.rows.all[1]);
  CHECK(json::find(text, "entryIds") == R"(["e1","e1.2"])");
  CHECK(json::find(text, "content") == "[" + text_part("one") + "," + pi_call("c1") + "," + pi_call("c2") + "]");
  CHECK(json::find(text, "stopReason") == R"("toolUse")");
  CHECK(view.used == measure(conversation, 0).used());
  CHECK(view.repaired.empty());
  // Thinking alone says nothing, but its further parts may.
  const std::string thinking = R"({"type":"thinking","thinking":"hm"})";
  Conversation thought = talk(
      {user(), part(thinking), part(thinking), part(text_part("one"), usage), calls_two, result("c1"), result("c2")});
  for (std::size_t at = 2; at <= 4; ++at) thought.after[at].id = fmt::format("e1.{}", at);
  const View whole = shown(thought);
  CHECK(ids_of(whole.rows) == Strings{"e0", "e1", "e5", "e6"});
  CHECK(json::find(to_json(whole.rows.all[1]), "entryIds") == R"(["e1","e1.2","e1.3","e1.4"])");
  CHECK(json::find(to_json(whole.rows.all[1]), "content")->starts_with("[" + thinking + "," + thinking + ","));
  CHECK(whole.used == measure(thought, 0).used());
  CHECK(whole.repaired.empty());
  // Another response, or another id, is another message.
  conversation.after[2].body = calls(pi_call("c1") + "," + pi_call("c2"));
  CHECK(ids_of(shown(conversation).rows) == Strings{"e0", "e1", "e1.2", "e3", "e4"});
  conversation.after[2] = talk({user(), user(), calls_two}).after[2];
  CHECK(ids_of(shown(conversation).rows) == Strings{"e0", "e1", "e2", "e3", "e4"});
}
