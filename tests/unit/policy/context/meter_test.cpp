#include "policy/context/meter.hpp"

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/unit/policy/context/messages.hpp"

using namespace sessiond;
using namespace sessiond::context;
using namespace sessiond::testing;

namespace {

Meter measured(const std::vector<std::string>& messages) { return measure(talk(messages), 3); }

std::string replied(std::string_view usage) {
  return fmt::format(R"({{"role":"assistant","content":"abcd","usage":{}}})", usage);
}

}  // namespace

TEST_CASE("a turn begins with a person's message that does not follow another one") {
  struct Case {
    std::vector<std::string> messages;
    std::int64_t counted, turns;
  };
  const std::string pair = said("assistant", "[Context Summary] s", R"(,"summary":true)");
  const std::vector<Case> cases{
      {{}, 0, 0},
      {{user()}, 1, 1},
      {{user(), assistant()}, 2, 1},
      {{user(), user(), assistant()}, 3, 1},
      {{user(), assistant(), user(), assistant()}, 4, 2},
      {{system_says(), user(), assistant()}, 2, 1},
      {{user(), system_says(), user()}, 2, 1},
      {{synthetic(), assistant()}, 1, 0},
      {{user(), synthetic(), assistant()}, 2, 1},
      {{user(), call("c1"), result("c1"), assistant()}, 4, 1},
      {{user(), calls(tool_use("c1")), user_parts(tool_result("c1")), assistant()}, 4, 1},
      {{user(), calls(tool_use("c1")), user_parts(tool_result("c1") + "," + text_part("also"))}, 3, 1},
      {{user(), calls(tool_use("c1")), user_parts(tool_result("c2") + "," + text_part("also"))}, 3, 2},
      {{assistant(), assistant()}, 2, 0},
      {{R"({"role":"narrator","content":"a"})", user()}, 1, 1},
  };
  for (const Case& one : cases) {
    CAPTURE(one.messages);
    const Meter meter = measured(one.messages);
    CHECK(meter.messages == one.counted);
    CHECK(meter.turns == one.turns);
  }
}

TEST_CASE("a custom message is counted as tokens and begins no turn") {
  Meter meter;
  add(meter, line_of(0, R"({"customType":"a","content":"abcdefgh"})", "custom_message"), 3, true);
  CHECK(meter.turns == 0);
  CHECK(meter.used() == 2);
  add(meter, line_of(1, R"({"label":"a label of some length"})", "label"), 3, true);
  CHECK(meter.used() == 2);
}

TEST_CASE("what is used is what the last reply reported, and the estimate of what came since") {
  struct Case {
    std::vector<std::string> messages;
    std::int64_t used;
    bool reported;
  };
  const std::vector<Case> cases{
      {{}, 0, false},
      {{user("abcde")}, 2, false},
      {{user("abcde"), assistant("abcd")}, 3, false},
      {{system_says("abcd"), user("abcde")}, 3, false},
      {{user("abcde"), replied(R"({"input":10,"output":5,"cacheRead":3,"cacheWrite":2})")}, 20, true},
      {{user("abcde"), replied(R"({"input":10,"output":5}  )"), user("abcde")}, 17, true},
      {{replied(R"({"input":10,"output":5})"), replied(R"({"input":100,"output":50})")}, 150, true},
      {{replied(R"({"input":10,"output":5})"), assistant("abcdefgh")}, 17, true},
      {{replied(R"({"inputTokens":10,"outputTokens":5})")}, 15, true},
      {{replied(
           R"({"input_tokens":10,"output_tokens":5,"cache_read_input_tokens":7,"cache_creation_input_tokens":1})")},
       23,
       true},
      {{replied(
           R"({"prompt_tokens":100,"completion_tokens":10,"total_tokens":110,"prompt_tokens_details":{"cached_tokens":40}})")},
       110,
       true},
      {{replied(
           R"({"promptTokenCount":10,"candidatesTokenCount":5,"thoughtsTokenCount":2,"cachedContentTokenCount":1,"totalTokenCount":17})")},
       17,
       true},
      {{replied(R"({"input":10,"output":5,"totalTokens":99})")}, 15, true},
      {{user("abcde"), replied(R"({"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":0})")}, 3, false},
      {{user("abcde"), replied("{}")}, 3, false},
      {{user("abcde"), replied("7")}, 3, false},
      {{replied(R"({"input":10,"output":5})"), replied(R"({"input":0,"output":0})")}, 16, true},
      {{R"({"role":"user","content":"abcd","usage":{"input":10,"output":5}})"}, 1, false},
      {{system_says("abcd"), replied(R"({"input":10,"output":5})")}, 15, true},
      {{replied(R"({"input":10,"output":5})"), system_says("abcdefgh")}, 17, true},
  };
  for (const Case& one : cases) {
    CAPTURE(one.messages);
    const Meter meter = measured(one.messages);
    CHECK(meter.used() == one.used);
    CHECK(meter.reported.has_value() == one.reported);
  }
}

TEST_CASE("a checkpoint begins the measure anew, and what it keeps reports no usage") {
  Conversation conversation;
  conversation.system = lines_of({system_says("abcd")});
  conversation.before = lines_of({user("abcdefgh"), replied(R"({"input":1000,"output":5})")}, 5);
  conversation.checkpoint = compaction_line(7, "abcdefgh", "e5");
  conversation.after = lines_of({user("abcd")}, 8);
  Meter meter = measure(conversation, 3);
  CHECK(meter.checkpoint == "e7");
  CHECK(meter.messages == 3);
  CHECK(meter.turns == 2);
  CHECK_FALSE(meter.reported.has_value());
  // The system message 1, the kept ones 2 + 1, the last one 1; the rest is the summary's.
  const std::int64_t with = meter.used();
  CHECK(with >= 5 + 2);
  CHECK(with < 60);
  add(meter, line_of(9, replied(R"({"input":30,"output":5})")), 3, true);
  CHECK(meter.used() == 35);
}

TEST_CASE("the view without pruning uses what the meter measures") {
  Conversation conversation;
  conversation.system = lines_of({system_says("abcd")});
  conversation.before = lines_of({user("abcdefgh"), assistant("abcde")}, 5);
  conversation.checkpoint = compaction_line(7, "abcdefgh", "e5");
  conversation.after =
      lines_of({user("abcd"), call("c1", "ls", R"({"a":1})"), result("c1", "abcdefghi"), assistant()}, 8);
  ViewOptions options;
  options.prune = Prune::off;
  CHECK(view_of(conversation, options, {}).used == measure(conversation, 3).used());
  conversation.checkpoint.reset();
  conversation.before.clear();
  CHECK(view_of(conversation, options, {}).used == measure(conversation, 3).used());
  conversation.after.push_back(line_of(12, replied(R"({"input":30,"output":5})")));
  conversation.after.push_back(line_of(13, user("abcde")));
  CHECK(view_of(conversation, options, {}).used == 37);
  conversation.system.push_back(line_of(14, system_says("abcd")));
  CHECK(view_of(conversation, options, {}).used == 38);
  CHECK(measure(conversation, 3).used() == 38);
}

TEST_CASE("whatever comes, a meter counts what the view without pruning shows") {
  std::mt19937 random(11);
  const auto below = [&random](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const auto id = [&] { return fmt::format("c{}", below(4)); };
  const std::string made = R"({"role":"toolResult","toolCallId":"c1","content":"made up","synthetic":true})";
  for (int round = 0; round < 10'000; ++round) {
    std::vector<std::string> messages;
    for (std::size_t count = below(14); messages.size() < count;) {
      const std::vector<std::string> any{
          user("some words"),
          assistant("an answer"),
          synthetic(),
          system_says(),
          user(" \\n"),
          assistant(""),
          replied(fmt::format(R"({{"input":{},"output":1}})", below(3) * 50)),
          calls(pi_call(id()) + "," + pi_call(id())),
          call(id()),
          openai_call(id()),
          calls(tool_use(id())),
          result(id(), "what came out"),
          result(id(), ""),
          openai_result(id(), "out"),
          made,
          user_parts(tool_result(id(), "abcde") + "," + text_part("and words")),
          user_parts(tool_result(id(), "abcde") + "," + tool_result(id(), " ")),
          user_parts(text_part("") + "," + tool_result(id(), "zz")),
          user_parts(tool_result(id(), "a") + "," + tool_result(id(), "b")),
          R"({"customType":"note","content":[{"type":"toolCall","id":"c1","name":"ls","arguments":{}},{"type":"text","text":"n"}]})",
          R"({"customType":"note","content":[{"type":"tool_result","tool_use_id":"c1","content":"noted"}]})",
          R"({"customType":"note","content":[{"type":"thinking","thinking":"hm"}]})",
          R"({"customType":"note","content":"noted"})",
          user_parts(text_part(" ")),
          calls(R"({"type":"thinking","thinking":"hm"})"),
          R"({"role":"user","content":[{"type":"text","text":""}],"attachments":[{"type":"image"},{"name":"a.txt"}]})",
          R"({"role":"assistant","content":[{"type":"toolCall","id":"c2","name":"ls","arguments":{}}],"usage":{"input":70}})"};
      messages.push_back(any[below(any.size())]);
      if (below(8) != 0) continue;
      messages.push_back(said("assistant", "half an ans", R"(,"state":"interrupted")"));
      if (below(4) == 0) messages.push_back(result(id(), "between"));
      messages.push_back(R"({"customType":"sessiond.run","data":{"retried":true}})");
    }
    CAPTURE(messages);
    Conversation conversation = talk(messages);
    for (Line& line : conversation.after)
      if (line.body.starts_with(R"({"customType)"))
        line.type = line.body.contains("sessiond.run") ? "custom" : "custom_message";
    if (below(3) == 0) {  // kept entries, then a checkpoint
      const auto kept = static_cast<std::ptrdiff_t>(below(conversation.after.size() + 1));
      conversation.before.assign(conversation.after.begin(), conversation.after.begin() + kept);
      conversation.after.erase(conversation.after.begin(), conversation.after.begin() + kept);
      conversation.checkpoint = compaction_line(100, "what was");
      for (Line& line : conversation.after) line.seq += 200;
    }
    ViewOptions options;
    options.prune = Prune::off;
    CHECK(view_of(conversation, options, {}).used == measure(conversation, 3).used());
  }
}

TEST_CASE("a compaction is due from the threshold on, with enough messages and turns") {
  struct Case {
    std::int64_t used, messages, turns, window;
    std::string_view due;
  };
  const std::vector<Case> cases{
      {799, 9, 9, 1000, "below_threshold"},
      {800, 6, 5, 1000, "due"},
      {800, 5, 5, 1000, "too_few_messages"},
      {900, 12, 4, 1000, "too_few_turns"},
      {800, 12, 5, 1000, "due"},
      {5000, 6, 5, 1000, "window_full"},
      {949, 6, 5, 1000, "due"},
      {949, 1, 1, 1000, "too_few_messages"},
      {950, 1, 1, 1000, "window_full"},
      {0, 0, 0, 1000, "below_threshold"},
      {799, 1, 1, 1000, "below_threshold"},
      {800, 5, 4, 1000, "too_few_messages"},
      {159'999, 6, 5, 200'000, "below_threshold"},
      {160'000, 6, 5, 200'000, "due"},
  };
  for (const Case& one : cases) {
    CAPTURE(one.used);
    CAPTURE(one.messages);
    CAPTURE(one.turns);
    const Meter meter{.messages = one.messages, .turns = one.turns, .estimated = one.used};
    CHECK(due(meter, one.window, {}).reason == one.due);
    CHECK(due(meter, one.window, {}).compaction == (one.due == "due" || one.due == "window_full"));
    CHECK(due(meter, one.window, {}, true).reason == "window_full");
  }
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  CHECK(is_full(most, most, {}));
  CHECK_FALSE(is_full(1, most, {}));
}

TEST_CASE("a meter is written as text and read again") {
  Meter meter;
  meter.begin("id \"\\\n\xF0\x9F\x98\x80", -17, 12);
  meter.branches = 18'446'744'073'709'551'615U;
  meter.messages = 7;
  meter.turns = 3;
  meter.after_person = true;
  meter.reported = 0;
  meter.estimated = std::int64_t{1} << 53;
  meter.calls.resume({{.id = "c \"1", .name = "", .spelling = Spelling::openai, .message = 2, .counted = 9},
                      {.id = "", .name = "ls", .spelling = Spelling::anthropic, .message = 2, .place = 1},
                      {.id = "x", .name = "y", .message = 4, .answered = true, .counted = 3}},
                     5, true, 3);
  meter.turn = 4;
  meter.repeated = {.call = "hash", .count = 4, .ids = {"a", "b\n"}, .tool = "t"};
  meter.doom = DoomLoop{.tool = "ls", .count = 3, .call_ids = {"1", "2", "3"}};
  const std::string text = to_text(meter);
  const auto read = meter_of(text);
  REQUIRE(read.has_value());
  CHECK(to_text(*read) == text);
  CHECK(read->checkpoint == meter.checkpoint);
  CHECK(read->checkpoint_at == -17);
  CHECK(read->branches == meter.branches);
  CHECK(read->messages == 7);
  CHECK(read->turns == 3);
  CHECK(read->after_person);
  CHECK(read->reported == 0);
  CHECK(read->estimated == meter.estimated);
  const std::vector<KeptCall> calls = read->calls.open(true);
  REQUIRE(calls.size() == 3);
  CHECK(calls[0].id == "c \"1");
  CHECK(int(calls[0].spelling) == int(Spelling::openai));
  CHECK(calls[0].counted == 9);
  CHECK(calls[1].name == "ls");
  CHECK(int(calls[1].spelling) == int(Spelling::anthropic));
  CHECK(calls[1].place == 1);
  CHECK(calls[2].answered);
  CHECK(read->calls.open().size() == 2);
  CHECK(read->calls.messages() == 5);
  CHECK(read->calls.follows());
  CHECK(read->calls.forgot_since(2));
  CHECK_FALSE(read->calls.forgot_since(3));
  CHECK(read->turn == 4);
  CHECK(read->repeated.call == "hash");
  CHECK(read->repeated.count == 4);
  CHECK(read->repeated.ids == meter.repeated.ids);
  CHECK(read->repeated.tool == "t");
  REQUIRE(read->doom.has_value());
  CHECK(read->doom->call_ids == meter.doom->call_ids);
  CHECK(read->doom->count == 3);

  const auto fresh = meter_of(to_text(Meter{}));
  REQUIRE(fresh.has_value());
  CHECK_FALSE(fresh->reported.has_value());
  CHECK_FALSE(fresh->doom.has_value());
  CHECK_FALSE(fresh->calls.has_open());
}

TEST_CASE("a text that is no meter is none") {
  const std::string text = to_text(measured({user(), call("c1"), call("c2"), user("x")}));
  for (std::size_t end = 0; end < text.size(); ++end) CHECK_FALSE(meter_of(text.substr(0, end)).has_value());
  for (const std::string_view bad : {"", "{", "[]", "7", "null", "\xFF", "{}x"}) CHECK_FALSE(meter_of(bad).has_value());
}

TEST_CASE("a meter that is read again goes on as the one that was written") {
  const std::vector<std::string> messages{user("abc"),   call("c1"),   result("c1"),
                                          call("c2"),    result("c2"), call("c3"),
                                          result("c3"),  user("y"),    replied(R"({"input":9,"output":1})"),
                                          user("abcde"), call("c4")};
  Meter whole;
  Meter resumed;
  for (const std::string& each : messages) {
    add(whole, line_of(0, each), 3, true);
    add(resumed, line_of(0, each), 3, true);
    auto read = meter_of(to_text(resumed));
    REQUIRE(read.has_value());
    resumed = *read;
    CHECK(to_text(resumed) == to_text(whole));
  }
}
