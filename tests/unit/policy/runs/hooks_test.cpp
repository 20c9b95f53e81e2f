#include "policy/runs/hooks.hpp"

#include <doctest/doctest.h>

#include "store/json/raw_json.hpp"

using namespace sessiond;
using namespace sessiond::runs;

TEST_CASE("a hook is called for its events and agents") {
  HookList hooks;
  hooks.put({.name = "a", .events = {"Stop", "PreToolUse"}, .blocking = true, .agents = {"main"}});
  hooks.put({.name = "b", .events = {"Stop"}});
  CHECK(hooks.is_wanted("other", "Stop"));
  CHECK_FALSE(hooks.is_wanted("other", "PreToolUse"));
  CHECK(hooks.is_waited_for("main", "PreToolUse"));
  CHECK_FALSE(hooks.is_waited_for("main", "Stop"));  // nothing waits for it
}

TEST_CASE("hooks are the same after they were stored") {
  HookList hooks;
  hooks.put({.name = "a",
             .events = {"PreCompact"},
             .blocking = true,
             .timeout_ms = 20,
             .blocks_on_timeout = true,
             .agents = {"main", "codex"}});
  hooks.put({.name = "b", .events = {"Stop"}});
  const auto again = HookList::from_json(hooks.to_json());
  REQUIRE(again);
  CHECK(again->to_json() == hooks.to_json());
  CHECK(again->all().size() == 2);
  for (const char* damaged : {"{}", "[]", R"({"hooks":{}})", R"({"hooks":[{"events":["Stop"]}]})"})
    CHECK_FALSE(HookList::from_json(damaged));
}

TEST_CASE("contexts are joined in the order of the names") {
  const std::vector<HookAnswer> answers{{.name = "a", .is_open = false, .context = "one"},
                                        {.name = "b", .is_open = false},
                                        {.name = "c", .is_open = false, .context = "three"}};
  const auto verdict = verdict_of(answers);
  REQUIRE(verdict);
  CHECK_FALSE(verdict->blocked);
  CHECK(verdict->context == "one\nthree");
  CHECK(verdict_of({})->context.empty());
}

TEST_CASE("the first block by name counts, and what comes behind it is not waited for") {
  std::vector<HookAnswer> answers{
      {.name = "a", .is_open = false}, {.name = "b"}, {.name = "c", .is_open = false, .blocks = true, .reason = "c"}};
  CHECK_FALSE(verdict_of(answers));
  answers[1] = {.name = "b", .is_open = false, .blocks = true, .reason = "b"};
  CHECK(verdict_of(answers)->reason == "b");
  answers[0].blocks = true;
  answers[1].is_open = true;
  CHECK(verdict_of(answers)->blocked);
}

TEST_CASE("what all handlers add has a limit") {
  const std::vector<HookAnswer> answers{{.name = "a", .is_open = false, .context = std::string(40'000, 'x')},
                                        {.name = "b", .is_open = false, .context = std::string(40'000, 'y')}};
  CHECK(verdict_of(answers)->context.size() == most_context_bytes);
}
