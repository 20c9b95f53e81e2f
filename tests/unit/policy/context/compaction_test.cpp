#include "policy/context/compaction.hpp"

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/unit/policy/context/messages.hpp"

using namespace sessiond;
using namespace sessiond::context;
using namespace sessiond::testing;

namespace {

std::vector<std::string> pairs(std::size_t count) {
  std::vector<std::string> messages;
  for (std::size_t i = 0; i < count; ++i) {
    messages.push_back(user());
    messages.push_back(assistant());
  }
  return messages;
}
// Settings by which a plan may make as little room as it likes.
Settings any_size() {
  Settings settings;
  settings.compaction.max_tokens = 0;
  return settings;
}

// Entries 10, 11, … behind a checkpoint at 9 that keeps what `kept` holds, from 9 - its size on.
Conversation after_checkpoint(const std::vector<std::string>& kept, const std::vector<std::string>& messages) {
  Conversation conversation;
  conversation.before = lines_of(kept, 9 - kept.size());
  conversation.checkpoint = compaction_line(9, "S", kept.empty() ? "" : conversation.before[0].id);
  conversation.after = lines_of(messages, 10);
  return conversation;
}

}  // namespace

TEST_CASE("a plan keeps the last four turns") {
  const auto plan = plan_compaction(talk(pairs(7)), {});
  REQUIRE(plan.has_value());
  CHECK(plan->first_kept == "e6");
  CHECK_FALSE(plan->previous_summary.has_value());
  CHECK(plan->count == 6);

  Settings one;
  one.compaction.keep_turns = 1;
  const auto last = plan_compaction(talk(pairs(7)), one);
  REQUIRE(last.has_value());
  CHECK(last->first_kept == "e12");
}

TEST_CASE("system messages and what no model is shown are not summarised") {
  std::vector<std::string> messages = pairs(7);
  messages.insert(messages.begin() + 2, R"({"role":"narrator","content":"a"})");
  messages.insert(messages.begin() + 2, system_says());
  messages.insert(messages.begin(), system_says());
  const auto plan = plan_compaction(talk(messages), {});
  REQUIRE(plan.has_value());
  CHECK(plan->first_kept == "e9");
  CHECK(plan->count == 6);
}

TEST_CASE("a plan names no id that a later entry has, too") {
  Conversation conversation = talk(pairs(7));
  conversation.after[9].id = "e6";  // a reply behind the first entry of the fourth turn from the end
  const auto plan = plan_compaction(conversation, {});
  REQUIRE(plan.has_value());
  CHECK(plan->first_kept == "e4");
  CHECK(plan->count == 4);

  conversation = talk(pairs(7));
  conversation.after[0].id = "e6";  // an earlier one
  const auto other = plan_compaction(conversation, {});
  REQUIRE(other.has_value());
  CHECK(other->first_kept == "e6");
  CHECK(other->count == 6);
}

TEST_CASE("a plan summarises no call whose result came later than the turns that are kept begin") {
  std::vector<std::string> messages;
  for (int turn = 0; turn < 6; ++turn) {
    messages.push_back(user());
    messages.push_back(turn == 1 ? call("c1") : assistant());
  }
  messages.push_back(result("c1"));
  // Four turns from the end is e4, but the call of the turn before it has its result behind that.
  const auto plan = plan_compaction(talk(messages), {});
  REQUIRE(plan.has_value());
  CHECK(plan->first_kept == "e2");
  // Where there is no such turn to begin with, a full window counts more.
  std::swap(messages[1], messages[3]);
  const auto parting = plan_compaction(talk(messages), {});
  REQUIRE(parting.has_value());
  CHECK(parting->first_kept == "e4");
}

TEST_CASE("there is nothing to compact in few messages or few turns") {
  CHECK_FALSE(plan_compaction(talk({}), {}).has_value());
  CHECK_FALSE(plan_compaction(talk({user(), assistant(), user(), assistant(), user()}), {}).has_value());
  CHECK_FALSE(plan_compaction(talk(pairs(4)), {}).has_value());
  CHECK_FALSE(
      plan_compaction(talk({user(), assistant(), assistant(), assistant(), assistant(), assistant(), assistant()}), {})
          .has_value());
  CHECK(plan_compaction(talk(pairs(5)), {}).has_value());
  CHECK_FALSE(
      plan_compaction(talk({system_says(), user(), user(), user(), user(), user(), user(), user()}), {}).has_value());
}

TEST_CASE("a later plan summarises from what the last one kept on") {
  const auto plan = plan_compaction(after_checkpoint(pairs(4), pairs(3)), {});
  REQUIRE(plan.has_value());
  CHECK(plan->previous_summary == "S");
  CHECK(plan->first_kept == "e7");
  CHECK(plan->count == 6);

  const auto behind = plan_compaction(after_checkpoint(pairs(2), pairs(6)), {});
  REQUIRE(behind.has_value());
  CHECK(behind->first_kept == "e14");
  CHECK(behind->count == 8);

  const auto nothing_kept = plan_compaction(after_checkpoint({}, pairs(5)), {});
  REQUIRE(nothing_kept.has_value());
  CHECK(nothing_kept->first_kept == "e12");
  CHECK(nothing_kept->count == 2);

  CHECK_FALSE(plan_compaction(after_checkpoint(pairs(4), {}), {}).has_value());
  CHECK_FALSE(plan_compaction(after_checkpoint({}, {}), {}).has_value());
}

TEST_CASE("below a full window a long turn is not divided") {
  const Conversation talk_ = talk({user(), call("a"), result("a"), call("b"), result("b"), call("c"), result("c")});
  CHECK_FALSE(plan_compaction(talk_, any_size()).has_value());
  const auto plan = plan_compaction(talk_, any_size(), {.is_full = true});
  REQUIRE(plan.has_value());
  CHECK(plan->first_kept == "e3");  // the model's last steps are kept, and with them what they rest on
  CHECK(plan->count == 2);
}

TEST_CASE("a full window is divided where all calls before have results") {
  const PlanAsked full{.is_full = true};
  CHECK_FALSE(plan_compaction(talk({user(), call("a"), result("a")}), any_size(), full).has_value());
  CHECK_FALSE(plan_compaction(talk({user(), call("a"), assistant()}), any_size(), full).has_value());
  const auto waits = plan_compaction(talk({user(), call("a"), result("a"), call("b"), assistant()}), any_size(), full);
  REQUIRE(waits.has_value());
  CHECK(waits->first_kept == "e3");
  // A call of an earlier turn gets no result any more once the model has gone on.
  const auto dead =
      plan_compaction(talk({user(), call("a"), user(), call("b"), result("b"), assistant()}), any_size(), full);
  REQUIRE(dead.has_value());
  CHECK(dead->first_kept == "e2");
  // A word behind it is no reason to believe that.
  const std::vector<std::string> spoken{user(), assistant(), call("a"), user()};
  CHECK(plan_compaction(talk(spoken), any_size(), full)->first_kept == "e2");
  CHECK_FALSE(plan_compaction(talk({user(), call("a"), user()}), any_size(), full).has_value());
  const OrderAsked goes_on{.active = {"e2"}};
  CHECK(
      plan_compaction(talk({user(), call("a"), user()}), any_size(), {.runs = goes_on, .is_full = true})->first_kept ==
      "e2");
}

TEST_CASE("a result is parted from its call only where nothing else can be done") {
  const PlanAsked full{.is_full = true};
  const std::vector<std::string> late{user(), call("a"), user(), result("a"), assistant(), assistant(), assistant()};
  CHECK(plan_compaction(talk(late), any_size(), full)->first_kept == "e4");
  const std::vector<std::string> only{user(), call("a"), user(), result("a")};
  CHECK(plan_compaction(talk(only), any_size(), full)->first_kept == "e2");
}

TEST_CASE("words that no answer stands between are divided only where nothing else can be done") {
  const PlanAsked full{.is_full = true};
  CHECK(plan_compaction(talk({user(), user(), user()}), any_size(), full)->first_kept == "e2");
  CHECK(plan_compaction(talk({user(), user(), user()}), any_size(), full)->count == 2);
  CHECK(plan_compaction(talk({user(), user(), assistant(), assistant()}), any_size(), full)->first_kept == "e3");
  const auto rows = rows_to_summarise(talk({user(), user(), user()}), {}, "e2", 1'000);
  REQUIRE(rows.has_value());
  CHECK(ids_of(*rows) == std::vector<std::string>{"e0", "e1"});
}

TEST_CASE("no plan of a full window makes less room than a summary may take") {
  const std::string most(3'800, 'x');  // 950 tokens
  const PlanAsked full{.window = 1'000, .is_full = true};
  CHECK_FALSE(plan_compaction(talk({user(most), call("a"), result("a"), call("b"), result("b")}), {}, full));
  std::vector<std::string> messages{user("hi"), assistant(), user("port it")};
  for (int step = 0; step < 9; ++step) messages.push_back(assistant(std::string(400, 'x')));
  const auto plan = plan_compaction(talk(messages), {}, full);
  REQUIRE(plan.has_value());
  CHECK(plan->first_kept == "e9");
}

TEST_CASE("a word that waits for a run is not where a plan begins to keep") {
  const OrderAsked runs{.waiting = {"e4"}};
  const auto plan = plan_compaction(talk({user(), assistant(), assistant(), assistant(), user()}), any_size(),
                                    {.runs = runs, .is_full = true});
  REQUIRE(plan.has_value());
  CHECK(plan->first_kept == "e2");
  CHECK_FALSE(
      plan_compaction(talk({user(), assistant(), user()}), any_size(), {.runs = {.waiting = {"e2"}}, .is_full = true}));
}

TEST_CASE("the words that began a divided turn are kept, and so are those of the active run") {
  const Conversation conversation =
      talk({user(), user(), call("a"), result("a"), user(), call("b"), result("b"), call("c")});
  const auto ids = [&](std::uint64_t first, const OrderAsked& runs) {
    std::vector<std::string> all;
    for (const Line* line : words_before(conversation, first, runs)) all.push_back(line->id);
    return all;
  };
  using Ids = std::vector<std::string>;
  CHECK(ids(4, {}).empty());
  CHECK(ids(1, {}).empty());
  CHECK(ids(5, {}) == Ids{"e4"});
  CHECK(ids(7, {}) == Ids{"e4"});
  CHECK(ids(2, {}) == Ids{"e0", "e1"});
  CHECK(ids(7, {.active = {"e1", "e4"}}) == Ids{"e1", "e4"});
  // The run may end before the summary is there: its words are told to it, too.
  const auto rows = rows_to_summarise(conversation, {}, "e7", 200'000);
  REQUIRE(rows.has_value());
  CHECK(ids_of(*rows) == Ids{"e0", "e1", "e2", "e3", "e5", "e6"});
  CHECK_FALSE(rows_to_summarise(conversation, {}, "e9", 200'000).has_value());
}

TEST_CASE("a plan takes at most nine tenths of the window, from the oldest on") {
  const std::string long_text(4'000, 'x');  // 1 000 tokens
  std::vector<std::string> messages;
  for (int turn = 0; turn < 12; ++turn) {
    messages.push_back(user());
    messages.push_back(assistant(long_text));
  }
  CHECK(plan_compaction(talk(messages), {}, {.window = 100'000})->first_kept == "e16");
  CHECK(plan_compaction(talk(messages), {}, {.window = 5'000})->first_kept == "e8");
  CHECK(plan_compaction(talk(messages), {}, {.window = 5'000, .is_full = true})->first_kept == "e8");
  CHECK(plan_compaction(talk(messages), {}, {.window = 1'200, .is_full = true})->first_kept == "e2");
}

TEST_CASE("a message that is longer than a window is cut where it is summarised, so nothing waits behind it for ever") {
  const PlanAsked full{.window = 40'000, .is_full = true};
  const std::string pasted(500'000, 'x');
  const std::string image = R"({"type":"image","data":"aGk=","mimeType":"image/png"})";
  const auto part = [&pasted](std::string_view type) {
    return fmt::format(R"({{"type":"{}","{}":"{}"}})", type, type == "thinking" ? type : "text", pasted);
  };
  const auto with = [](const char* role, const std::string& parts) {
    return fmt::format(R"({{"role":"{}","content":[{}]}})", role, parts);
  };
  std::string album = image;
  for (int number = 1; number < 30; ++number) album += "," + image;
  for (const std::string& longest :
       {user(pasted), assistant(pasted), with("user", image + "," + part("text") + "," + part("text")),
        with("user", part("input_text")), with("assistant", part("output_text")),
        with("assistant", part("thinking") + R"(,{"type":"text","text":"so"})"), with("user", album)}) {
    CAPTURE(longest.substr(0, 100));
    const Conversation conversation = talk({user(), longest, user(), assistant(), user(), assistant()});
    const auto plan = plan_compaction(conversation, {}, full);
    REQUIRE(plan.has_value());
    REQUIRE(plan->count >= 2);
    const auto rows = rows_to_summarise(conversation, {}, plan->first_kept, full.window);
    REQUIRE(rows.has_value());
    REQUIRE(rows->all.size() == plan->count);
    const Entry& shown = rows->all[1].entry;
    CHECK(shown.tokens < 4'100);
    CHECK(shown.content.contains("[Message trimmed: kept first 8000 chars and last 8000 chars of ") ==
          (longest.contains(pasted) && !longest.contains("thinking")));
    CHECK_FALSE(shown.content.contains("thinking"));
    CHECK(shown.content.contains("[Old image content cleared]") == longest.contains("image"));
  }
  // A question that no answer follows yet is never summarised, however long it is.
  CHECK_FALSE(plan_compaction(talk({user(), assistant(), user(pasted)}), {}, full).has_value());
}

TEST_CASE("results are cut where they are summarised, shorter if need be, so a plan can take them") {
  const PlanAsked full{.window = 40'000, .is_full = true};
  std::vector<std::string> one{user(), call("a"), result("a", std::string(1'000'000, 'x'))};
  std::vector<std::string> many{user(), ""};  // at once
  std::string parts;
  for (int number = 0; number < 12; ++number) {
    parts += (number == 0 ? "" : ",") + pi_call(fmt::format("c{}", number));
    many.push_back(result(fmt::format("c{}", number), std::string(15'000, 'x')));
  }
  many[1] = calls(parts);
  for (std::vector<std::string> messages : {one, many}) {
    for (int step = 0; step < 3; ++step) messages.push_back(assistant());
    const Conversation conversation = talk(messages);
    const auto plan = plan_compaction(conversation, {}, full);
    REQUIRE(plan.has_value());
    CHECK(plan->first_kept == fmt::format("e{}", messages.size() - 3));
    const auto rows = rows_to_summarise(conversation, {}, plan->first_kept, full.window);
    REQUIRE(rows.has_value());
    CHECK(rows->all.size() == plan->count);
    std::int64_t tokens = 0;
    for (const Row& row : rows->all) tokens += row.entry.tokens;
    CHECK(tokens <= 36'000);
  }
}

TEST_CASE("a conversation that is cut is planned as far as it was read") {
  std::vector<std::string> messages{user()};
  for (int step = 0; step < 9; ++step) messages.push_back(assistant());
  Conversation conversation = talk(messages);
  conversation.cut = true;
  const auto plan = plan_compaction(conversation, {});
  REQUIRE(plan.has_value());
  CHECK(plan->first_kept == "e7");
}

TEST_CASE("whatever is planned, its rows are those that are counted, and no result that is kept loses its call") {
  std::mt19937 random(7);  // NOLINT: the same conversations each time
  std::size_t planned = 0;
  for (int round = 0; round < 4'000; ++round) {
    std::vector<std::string> messages, open;
    for (std::size_t length = random() % 12; messages.size() < length;) {
      switch (random() % 6) {
        case 0:
          messages.push_back(user());
          break;
        case 1:
        case 2:
          messages.push_back(assistant());
          break;
        case 3:
          open.push_back(fmt::format("c{}", messages.size()));
          messages.push_back(call(open.back()));
          break;
        case 4:
          messages.push_back(synthetic());
          break;
        default:
          if (open.empty()) continue;
          messages.push_back(result(open.back()));
          open.pop_back();
      }
    }
    const Conversation conversation = talk(messages);
    const auto plan = plan_compaction(conversation, any_size(), {.window = 1'000'000, .is_full = true});
    if (!plan) continue;
    ++planned;
    INFO(fmt::format("{} {}", plan->first_kept, fmt::join(messages, "\n")));
    const auto rows = rows_to_summarise(conversation, {}, plan->first_kept, 1'000'000);
    REQUIRE(rows.has_value());
    CHECK(rows->all.size() == plan->count);
    CHECK(plan->count > 0);
  }
  CHECK(planned > 1'000);
}
