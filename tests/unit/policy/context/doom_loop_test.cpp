#include "policy/context/doom_loop.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/unit/policy/context/messages.hpp"

using namespace sessiond;
using namespace sessiond::context;
using namespace sessiond::testing;

namespace {

using Strings = std::vector<std::string>;

ToolCall called(std::string_view arguments, Spelling spelling = Spelling::pi, std::string name = "ls") {
  return {.id = "c", .name = std::move(name), .arguments = arguments, .spelling = spelling};
}

bool identical(const ToolCall& a, const ToolCall& b) {
  Repeated repeated;
  CHECK_FALSE(repeat(repeated, a, 2).has_value());
  return repeat(repeated, b, 2).has_value();
}

// The counts of the warnings that a model gets, one message at a time.
std::vector<std::string> warnings(const std::vector<std::string>& messages) {
  Meter meter;
  std::vector<std::string> found;
  for (const std::string& each : messages) {
    add(meter, line_of(0, each), 3, true);
    const auto doom = meter.take_doom();
    if (!doom) continue;
    found.push_back(fmt::format("{} {} {}", doom->tool, doom->count, fmt::join(doom->call_ids, ",")));
    CHECK_FALSE(meter.take_doom().has_value());
    add(meter, line_of(0, synthetic(warning_of(*doom))), 3, true);
  }
  return found;
}

// Calls c1, c2, … of these tools, each with its result.
std::vector<std::string> called_in_turn(const std::vector<std::string>& tools) {
  std::vector<std::string> messages{user()};
  for (std::size_t i = 0; i < tools.size(); ++i) {
    messages.push_back(call(fmt::format("c{}", i + 1), tools[i], R"({"a":1})"));
    messages.push_back(result(fmt::format("c{}", i + 1)));
  }
  return messages;
}

}  // namespace

TEST_CASE("calls are identical by the value of their arguments") {
  const std::vector<std::vector<std::string>> groups{
      {R"({"a":1,"b":2})", R"({"b":2,"a":1})", R"({ "a" : 1.0, "b" : 2e0 })", R"({"\u0061":10e-1,"b":0.2e1})"},
      {R"({"a":1,"b":3})"},
      {R"({"a":1})", R"({"a":1.0})", R"({"a":1e0})"},
      {R"({"a":"1"})"},
      {R"({"a":-1})"},
      {R"({"a":1234567890123456789012345})"},
      {R"({"a":1234567890123456789012346})"},
      {R"({"a":{"b":{"c":[1,2],"d":null}}})", R"({"a":{"b":{"d":null,"c":[1.0,2]}}})"},
      {R"({"a":{"b":{"c":[2,1],"d":null}}})"},
      {R"({"a":"é"})", R"({"a":"\u00e9"})"},
      {R"({"a":true})"},
      {R"({"a":null})"},
      {R"({})"},
      {R"([])"},
      {R"([{"a":1}])"},
      {R"({"a":[1],"b":2})"},
      {R"({"a":[1,{"b":2}]})"},
  };
  for (std::size_t left = 0; left < groups.size(); ++left)
    for (std::size_t right = 0; right < groups.size(); ++right)
      for (const std::string& a : groups[left])
        for (const std::string& b : groups[right]) {
          CAPTURE(a);
          CAPTURE(b);
          CHECK(identical(called(a), called(b)) == (left == right));
          const std::string a_text = json::quote(a);
          const std::string b_text = json::quote(b);
          CHECK(identical(called(a_text, Spelling::openai), called(b_text, Spelling::openai)) == (left == right));
        }
  CHECK_FALSE(identical(called("{}"), called("{}", Spelling::pi, "cat")));
  CHECK_FALSE(identical(called(R"({"a":1})", Spelling::pi, "l"), called(R"(s{"a":1})", Spelling::pi, "l")));
}

TEST_CASE("arguments of OpenAI that are no JSON are compared as they are") {
  const auto text = [](std::string_view arguments) { return called(arguments, Spelling::openai); };
  CHECK(identical(text(R"("{\"a\":")"), text(R"("{\"a\":")")));
  CHECK_FALSE(identical(text(R"("{\"a\":")"), text(R"("{\"b\":")")));
  CHECK(identical(text(R"("")"), text(R"("")")));
  CHECK(identical(text(""), text("")));
}

TEST_CASE("every third identical call in a row is told, with the calls since the last one") {
  Repeated repeated;
  for (int i = 1; i <= 9; ++i) {
    ToolCall one = called("{}");
    one.id = fmt::format("c{}", i);
    const auto doom = repeat(repeated, one, 3);
    CAPTURE(i);
    REQUIRE(doom.has_value() == (i % 3 == 0));
    if (!doom) continue;
    CHECK(doom->tool == "ls");
    CHECK(doom->count == i);
    CHECK(doom->call_ids ==
          std::vector<std::string>{fmt::format("c{}", i - 2), fmt::format("c{}", i - 1), fmt::format("c{}", i)});
  }
  Repeated never;
  for (int i = 0; i < 10; ++i) {
    CHECK_FALSE(repeat(never, called("{}"), 0).has_value());
    CHECK_FALSE(repeat(never, called("{}"), -3).has_value());
  }
  Repeated each;
  CHECK(repeat(each, called("{}"), 1).has_value());
  CHECK(repeat(each, called("[]"), 1).has_value());
}

TEST_CASE("the warning names the tool and how often it was called") {
  CHECK(
      warning_of({.tool = "ls", .count = 6, .call_ids = {}}) ==
      "Warning: ls was called 6 times in a row with the same arguments. The result will not change; try something else "
      "or stop.");
}

TEST_CASE("a loop is told once the results are there") {
  CHECK(warnings(called_in_turn({"ls", "ls", "ls"})) == Strings{"ls 3 c1,c2,c3"});
  CHECK(warnings(called_in_turn({"ls", "ls"})).empty());
  CHECK(warnings(called_in_turn({"ls", "ls", "cat", "ls"})).empty());
  CHECK(warnings(called_in_turn({"ls", "ls", "ls", "ls", "ls", "ls"})) == Strings{"ls 3 c1,c2,c3", "ls 6 c4,c5,c6"});
  CHECK(warnings(called_in_turn({"ls", "ls", "ls", "ls", "ls", "ls", "ls", "ls", "ls"})) ==
        Strings{"ls 3 c1,c2,c3", "ls 6 c4,c5,c6", "ls 9 c7,c8,c9"});

  // A person's message begins anew; another text of the model does not.
  CHECK(warnings({call("c1"), result("c1"), call("c2"), result("c2"), user(), call("c3"), result("c3")}).empty());
  CHECK(warnings({call("c1"), result("c1"), assistant("hm"), call("c2"), result("c2"), synthetic(), call("c3"),
                  result("c3")}) == Strings{"ls 3 c1,c2,c3"});
  CHECK(warnings({call("c1", "ls", R"({"a":1,"b":2})"), result("c1"), call("c2", "ls", R"({"b":2,"a":1})"),
                  result("c2"), call("c3", "ls", R"({"a":1.0,"b":2})"), result("c3")}) == Strings{"ls 3 c1,c2,c3"});
}

TEST_CASE("a loop of parallel calls is told when all of them have results") {
  const auto pair = [](std::string_view a, std::string_view b) { return calls(pi_call(a) + "," + pi_call(b)); };
  CHECK(warnings({pair("c1", "c2"), result("c1"), result("c2"), pair("c3", "c4"), result("c3"), result("c4"),
                  pair("c5", "c6"), result("c6"), result("c5")}) == Strings{"ls 3 c1,c2,c3", "ls 6 c4,c5,c6"});
  Meter meter;
  add(meter, line_of(0, calls(pi_call("c1") + "," + pi_call("c2") + "," + pi_call("c3"))), 3, true);
  CHECK_FALSE(meter.take_doom().has_value());
  for (const std::string_view id : {"c3", "c1"}) {
    add(meter, line_of(0, result(id)), 3, true);
    CHECK_FALSE(meter.take_doom().has_value());
  }
  add(meter, line_of(0, result("c2")), 3, true);
  const auto doom = meter.take_doom();
  REQUIRE(doom.has_value());
  CHECK(doom->count == 3);
  // The same of the others' spelling.
  CHECK(warnings({openai_call("c1"), openai_result("c1"), openai_call("c2"), openai_result("c2"), openai_call("c3"),
                  openai_result("c3")}) == Strings{"ls 3 c1,c2,c3"});
  CHECK(warnings({calls(tool_use("c1") + "," + tool_use("c2") + "," + tool_use("c3")),
                  user_parts(tool_result("c1") + "," + tool_result("c2") + "," + tool_result("c3"))}) ==
        Strings{"ls 3 c1,c2,c3"});
}

TEST_CASE("a loop that was told is not told again when everything is measured anew") {
  Strings messages = called_in_turn({"ls", "ls", "ls"});
  messages.push_back(synthetic("the warning"));
  for (const std::string_view id : {"c4", "c5"}) {
    messages.push_back(call(id, "cat"));
    Meter meter = measure(talk(messages), 3);
    CHECK_FALSE(meter.take_doom().has_value());
    add(meter, line_of(20, result(id)), 3, true);
    CHECK_FALSE(meter.take_doom().has_value());
    messages.push_back(result(id));
  }
}
