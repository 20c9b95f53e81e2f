#include "policy/context/compaction.hpp"

#include <doctest/doctest.h>

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

  CompactionSettings one;
  one.keep_turns = 1;
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
