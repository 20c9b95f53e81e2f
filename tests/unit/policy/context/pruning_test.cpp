#include "policy/context/pruning.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/unit/policy/context/messages.hpp"

using namespace sessiond;
using namespace sessiond::context;
using namespace sessiond::testing;

namespace {

using Strings = std::vector<std::string>;

const std::string cleared = "[Old tool result content cleared]";

std::string times(std::string_view text, std::size_t count) {
  std::string all;
  for (std::size_t i = 0; i < count; ++i) all += text;
  return all;
}
std::string trimmed(std::string_view text, std::size_t chars, std::size_t kept = 1500) {
  const std::size_t size = text.size() / chars * kept;  // all characters have as many bytes
  return fmt::format("{}\n[Tool result trimmed: kept first {} chars and last {} chars of {} chars.]\n{}",
                     text.substr(0, size), kept, kept, chars, text.substr(text.size() - size));
}

// A conversation whose results are old: calls c0, c1, … with these results, then three replies.
Strings old_results(const Strings& texts, std::string_view tool = "ls") {
  Strings messages{user()};
  for (std::size_t i = 0; i < texts.size(); ++i) {
    messages.push_back(call(fmt::format("c{}", i), tool));
    messages.push_back(result(fmt::format("c{}", i), texts[i], tool));
  }
  for (int i = 0; i < 3; ++i) messages.push_back(assistant());
  return messages;
}

struct Pruning {
  std::vector<Line> lines;
  Rows rows;
  std::int64_t used = 0;
  std::vector<Pruned> pruned;

  Pruning(const Strings& messages, std::int64_t used_before, Prune how, std::int64_t window = 1000,
          PruningSettings settings = {})
      : lines(lines_of(messages)), used(used_before) {
    rows = rows_of(lines);
    ViewOptions options;
    options.prune = how;
    options.window = window;
    pruned = prune(rows, used, options, std::move(settings));
  }
  Strings texts() const {
    Strings all;
    for (const Row& row : rows.all)
      if (!row.entry.results.empty()) all.push_back(result_text(row));
    return all;
  }
  Strings told() const {
    Strings all;
    for (const Pruned& one : pruned)
      all.push_back(fmt::format("{} {} {}-{} {}", one.entry_id, one.tool, one.from, one.to, one.how));
    return all;
  }
};

const std::string x60 = times("x", 60'000);

}  // namespace

TEST_CASE("a long result is trimmed to its beginning and its end") {
  // 60 000 characters become 3 082: 56 918 fewer, 14 230 tokens.
  const Pruning x(old_results({x60}), 60'000, Prune::automatic, 120'000);
  CHECK(x.texts() == Strings{trimmed(x60, 60'000)});
  CHECK(x.texts()[0].size() == 3082);
  CHECK(x.told() == Strings{"e2 ls 60000-3082 soft"});
  CHECK(x.used == 60'000 - 14'230);

  const std::string e60 = times("é", 60'000);
  CHECK(Pruning(old_results({e60}), 60'000, Prune::automatic, 120'000).texts() == Strings{trimmed(e60, 60'000)});
  const std::string face60 = times("😀", 60'000);
  CHECK(Pruning(old_results({face60}), 60'000, Prune::automatic, 120'000).texts() == Strings{trimmed(face60, 60'000)});

  const std::string x49 = times("x", 49'999);
  CHECK(Pruning(old_results({x49}), 60'000, Prune::automatic, 120'000).pruned.empty());
  const std::string e49 = times("é", 49'999);
  CHECK(Pruning(old_results({e49}), 60'000, Prune::automatic, 120'000).pruned.empty());
  const std::string x50 = times("x", 50'000);
  CHECK(Pruning(old_results({x50}), 60'000, Prune::automatic, 120'000).texts() == Strings{trimmed(x50, 50'000)});
}

TEST_CASE("characters that are written as escapes are cut between them") {
  for (const auto& [escape, character] : std::vector<std::pair<std::string, std::string>>{
           {R"(\ud83d\ude00)", "😀"}, {R"(\\)", "\\"}, {R"(\u00e9)", "é"}, {R"(\")", "\""}}) {
    CAPTURE(escape);
    const std::string message = fmt::format(
        R"({{"role":"toolResult","toolCallId":"c0","toolName":"ls","content":"{}"}})", times(escape, 60'000));
    const Pruning pruning({user(), call("c0"), message, assistant(), assistant(), assistant()}, 60'000,
                          Prune::automatic, 120'000);
    REQUIRE(pruning.texts().size() == 1);
    CHECK(pruning.texts()[0] == trimmed(times(character, 60'000), 60'000));
    CHECK(pruning.told() == Strings{"e2 ls 60000-3082 soft"});
  }
}

TEST_CASE("soft begins beyond 30 % of the window, hard beyond 50 %") {
  struct Case {
    std::int64_t used, window;
    Strings told;
  };
  const std::vector<Case> cases{
      {300, 1000, {}},
      {301, 1000, {"e2 ls 60000-3082 soft"}},
      {60'000, 200'000, {}},
      {60'001, 200'000, {"e2 ls 60000-3082 soft"}},
      {14'230 + 50'000, 100'000, {"e2 ls 60000-3082 soft"}},  // exactly half after it
      {14'230 + 50'001, 100'000, {"e2 ls 60000-33 hard"}},
  };
  for (const Case& one : cases) {
    CAPTURE(one.used);
    CAPTURE(one.window);
    CHECK(Pruning(old_results({x60}), one.used, Prune::automatic, one.window).told() == one.told);
  }
}

TEST_CASE("hard goes on, oldest first, until no more than half is used") {
  // A cleared result that was trimmed before: 3 082 - 33 = 3 049 characters, 763 tokens.
  const Strings three = old_results({x60, x60, x60});
  const std::int64_t after_soft = 3 * 14'230;
  struct Case {
    std::int64_t above;
    std::size_t hard;
  };
  for (const Case& one : std::vector<Case>{{0, 0}, {1, 1}, {763, 1}, {764, 2}, {1526, 2}, {1527, 3}, {50'000, 3}}) {
    CAPTURE(one.above);
    const Pruning pruning(three, 50'000 + one.above + after_soft, Prune::automatic, 100'000);
    const Strings texts = pruning.texts();
    REQUIRE(texts.size() == 3);
    for (std::size_t i = 0; i < 3; ++i) CHECK(texts[i] == (i < one.hard ? cleared : trimmed(x60, 60'000)));
    CHECK(pruning.pruned.size() == 3);  // each is told once
    for (std::size_t i = 0; i < pruning.pruned.size(); ++i) {
      CHECK(pruning.pruned[i].from == 60'000);
      CHECK(pruning.pruned[i].to == (pruning.pruned[i].how == std::string_view("hard") ? 33 : 3082));
    }
  }
}

TEST_CASE("results behind the third-last message of the model stay") {
  Strings messages{user()};
  for (int i = 0; i < 4; ++i) {
    messages.push_back(call(fmt::format("c{}", i)));
    messages.push_back(result(fmt::format("c{}", i), x60));
  }
  CHECK(Pruning(messages, 90'000, Prune::automatic, 100'000).texts() == Strings{cleared, x60, x60, x60});
  CHECK(Pruning({user(), call("c0"), result("c0", x60), assistant()}, 900, Prune::automatic).pruned.empty());
  CHECK(
      Pruning({user(), call("c0"), result("c0", x60), assistant(), assistant()}, 900, Prune::automatic).pruned.empty());
  CHECK(Pruning({user(), call("c0"), result("c0", x60)}, 900, Prune::hard).pruned.empty());
}

TEST_CASE("excluded tools are never pruned") {
  for (const std::string_view tool : {"Skill", "skill_read", "SKILL", "skill"}) {
    CAPTURE(tool);
    CHECK(Pruning(old_results({x60}, tool), 900, Prune::automatic).pruned.empty());
    CHECK(Pruning(old_results({x60}, tool), 900, Prune::hard).pruned.empty());
  }
  CHECK(Pruning(old_results({x60}, "my_skill"), 900, Prune::hard).pruned.size() == 1);
  // The name stands in the call only.
  CHECK(Pruning({openai_call("c0", "skill_x"), openai_result("c0", x60), assistant(), assistant(), assistant()}, 900,
                Prune::hard)
            .pruned.empty());
  CHECK(Pruning({calls(tool_use("c0", "skill_x")), user_parts(tool_result("c0", x60)), assistant(), assistant(),
                 assistant()},
                900, Prune::hard)
            .pruned.empty());
  const Pruning openai({openai_call("c0", "cat"), openai_result("c0", x60), assistant(), assistant(), assistant()}, 900,
                       Prune::hard);
  CHECK(openai.told() == Strings{"e1 cat 60000-33 hard"});
  CHECK(openai.texts() == Strings{cleared});

  struct Case {
    std::string_view pattern, tool;
    bool excluded;
  };
  const std::vector<Case> cases{{"skill*", "Skill", true},
                                {"skill*", "skill", true},
                                {"skill*", "skillful", true},
                                {"skill*", "skil", false},
                                {"skill*", "askill", false},
                                {"ls", "LS", true},
                                {"ls", "lsof", false},
                                {"ls", "l", false},
                                {"*", "", true},
                                {"*", "x", true},
                                {"", "", true},
                                {"", "x", false}};
  for (const Case& one : cases) {
    CAPTURE(one.pattern);
    CAPTURE(one.tool);
    CHECK(excludes(one.pattern, one.tool) == one.excluded);
  }
}

TEST_CASE("soft and hard can be forced, and nothing is pruned when it is off") {
  CHECK(Pruning(old_results({x60, x60}), 1, Prune::soft).told() ==
        Strings{"e2 ls 60000-3082 soft", "e4 ls 60000-3082 soft"});
  CHECK(Pruning(old_results({x60, x60}), 1, Prune::hard).told() ==
        Strings{"e2 ls 60000-33 hard", "e4 ls 60000-33 hard"});
  CHECK(Pruning(old_results({x60, x60}), 1'000'000, Prune::off).pruned.empty());
  CHECK(Pruning(old_results({x60}), 1, Prune::soft).used >= 0);
}

TEST_CASE("aggressive prunes earlier, shorter results and leaves less") {
  const std::string x5 = times("x", 5000);
  // 5 000 become 1 000 and the notice of 79: 3 921 fewer, 981 tokens.
  const std::string notice = trimmed(x5, 5000, 500);
  const std::int64_t removed = tokens_of(5000 - std::int64_t(notice.size()));
  const Strings messages{user(), call("c0"), result("c0", x5), call("c1"), result("c1", x5)};
  const Pruning little(messages, 1, Prune::aggressive, 100'000);
  CHECK(little.texts() == Strings{notice, x5});  // what follows the last reply stays
  CHECK(Pruning(messages, 0, Prune::aggressive, 100'000).pruned.empty());
  CHECK(Pruning(messages, removed + 25'000, Prune::aggressive, 100'000).texts() == Strings{notice, x5});
  CHECK(Pruning(messages, removed + 25'001, Prune::aggressive, 100'000).texts() == Strings{cleared, x5});
  CHECK(Pruning({user(), call("c0"), result("c0", times("x", 4999)), assistant()}, 900, Prune::aggressive)
            .pruned.empty());
}

TEST_CASE("several text parts are trimmed as one, and images stay unless all is cleared") {
  const std::string half = times("x", 30'000);
  const std::string image = R"({"type":"image","data":"AAAA","mimeType":"image/png"})";
  const std::string message =
      fmt::format(R"({{"role":"toolResult","toolCallId":"c0","toolName":"ls","content":[{},{},{}],"isError":false}})",
                  text_part(half), image, text_part(half));
  const Strings messages{user(), call("c0"), message, assistant(), assistant(), assistant()};

  const Pruning soft(messages, 1, Prune::soft);
  CHECK(soft.told() == Strings{"e2 ls 60001-3082 soft"});
  const std::string softly = to_json(soft.rows.all[2]);
  CHECK(soft.texts() == Strings{trimmed(half + "\n" + half, 60'001)});
  CHECK(softly.find(image) != std::string::npos);
  CHECK(softly.find("\"isError\":false") != std::string::npos);

  const Pruning hard(messages, 1'000'000, Prune::hard);
  CHECK(hard.texts() == Strings{cleared});
  CHECK(to_json(hard.rows.all[2]).find("image") == std::string::npos);
  CHECK(hard.used == 1'000'000 - tokens_of(60'001 - 33) - tokens_of_image);
}

TEST_CASE("a result of an Anthropic message is pruned where it stands") {
  const Strings messages{
      calls(tool_use("c0") + "," + tool_use("c1")),
      user_parts(tool_result("c0", x60) + "," + tool_result("c1", "short") + "," + text_part("go on")), assistant(),
      assistant(), assistant()};
  const Pruning pruning(messages, 1, Prune::hard);
  CHECK(pruning.told() == Strings{"e1 ls 60000-33 hard"});
  CHECK(pruning.texts() == Strings{cleared + "\nshort"});
  CHECK(to_json(pruning.rows.all[1]).find("go on") != std::string::npos);
  // Two long ones in one message.
  const Pruning two(
      {calls(tool_use("c0") + "," + tool_use("c1")), user_parts(tool_result("c0", x60) + "," + tool_result("c1", x60)),
       assistant(), assistant(), assistant()},
      1, Prune::soft);
  CHECK(two.texts() == Strings{trimmed(x60, 60'000) + "\n" + trimmed(x60, 60'000)});
}

TEST_CASE("a result that would become longer stays") {
  PruningSettings small;
  small.min_chars = 10;
  small.keep_chars = 5;
  for (const std::size_t size : {10U, 11U, 33U, 60U, 80U}) {
    CAPTURE(size);
    const std::string text = times("y", size);
    CHECK(Pruning(old_results({text}), 900, Prune::soft, 1000, small).texts()[0].size() <= size);
    CHECK(Pruning(old_results({text}), 900, Prune::hard, 1000, small).texts()[0].size() <= size);
    CHECK(Pruning(old_results({text}), 900, Prune::automatic, 1000, small).used <= 900);
  }
  PruningSettings wide;
  wide.min_chars = 100;
  wide.keep_chars = 5000;
  const std::string text = times("y", 6000);
  CHECK(Pruning(old_results({text}), 900, Prune::soft, 1000, wide).texts() == Strings{text});
  PruningSettings none;
  none.min_chars = 0;
  none.keep_chars = 0;
  CHECK(Pruning(old_results({""}), 900, Prune::automatic, 1000, none).pruned.empty());
  const Pruning nothing_kept(old_results({x60}), 900, Prune::soft, 1000, none);
  CHECK(nothing_kept.texts()[0] == "\n[Tool result trimmed: kept first 0 chars and last 0 chars of 60000 chars.]\n");
}

TEST_CASE("half of a surrogate pair is a character, as it is when it is shown") {
  const std::string message = fmt::format(R"({{"role":"toolResult","toolCallId":"c0","toolName":"ls","content":"{}"}})",
                                          times(R"(\ude00)", 60'000));
  const Pruning pruning({user(), call("c0"), message, assistant(), assistant(), assistant()}, 60'000, Prune::automatic,
                        120'000);
  REQUIRE(pruning.texts().size() == 1);
  CHECK(pruning.texts()[0] == trimmed(times("\uFFFD", 60'000), 60'000));
}

TEST_CASE("results are cut to their first characters") {
  struct Case {
    std::string_view text;
    std::int64_t chars;
    std::string_view cut;
  };
  const std::vector<Case> cases{{"abcdefghijklmnopqrst", 3, "abc…[cut]"},
                                {"ééééééééééééééééé", 3, "ééé…[cut]"},
                                {"😀😀😀😀😀😀😀😀😀😀😀😀", 2, "😀😀…[cut]"},
                                {"abc", 3, "abc"}};
  for (const Case& one : cases) {
    CAPTURE(one.text);
    for (const std::string& message :
         {result("c0", one.text), openai_result("c0", one.text), user_parts(tool_result("c0", one.text))}) {
      const std::vector<Line> lines = lines_of({call("c0"), message});
      Rows rows = rows_of(lines);
      std::int64_t used = 1000;
      cut_results(rows, used, one.chars);
      CHECK(result_text(rows.all[1]) == one.cut);
      CHECK(used <= 1000);
    }
  }
}
