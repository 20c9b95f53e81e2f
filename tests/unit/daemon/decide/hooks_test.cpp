#include "daemon/decide/hooks.hpp"

#include "daemon/decide/run_commands.hpp"
#include "tests/unit/daemon/decide/book_on_paper.hpp"
#include "tests/unit/daemon/decide/world.hpp"

using namespace sessiond;
using namespace sessiond::decide;

namespace {

constexpr const char* hooked_key = "agent:main:slack:direct:u1";

struct Hooked : World {
  explicit Hooked(std::vector<runs::Hook> made) {
    for (runs::Hook& hook : made) list.put(std::move(hook));
    hooks = &list;
    run(CreateSession{.key = hooked_key, .session_id = "s", .entry = edit_of("{}")});
  }
  StartRun start() const { return {.target = {.key = hooked_key}}; }
  FinishRun finish() const {
    const SessionRuns& runs = *state.runs.find(hooked_key);
    return {.target = {.key = hooked_key}, .hold = {.run_id = runs.active->id, .fence = runs.fence}};
  }
  // "Stop:{…}" of each call so far.
  std::vector<std::string> calls() const {
    std::vector<std::string> out;
    for (const std::string& text : log) {
      const auto event = journal::parse_event(text);
      if (event->envelope.type == journal::EventType::hook_called)
        out.push_back(json::string_at(event->data, "event").value_or("") + ":" +
                      std::string(json::find(event->data, "input").value_or("")));
    }
    return out;
  }
  std::string source() const { return calls().empty() ? "" : calls().back(); }

  runs::HookList list;
};

}  // namespace

TEST_CASE("who is waited for is called alone, and the run starts with the verdict") {
  Hooked world({{.name = "a", .events = {"UserPromptSubmit"}, .blocking = true}});
  StartRun start = world.start();
  start.hooks.ask = true;
  CHECK(world.run(start).status == asked);
  CHECK(world.calls().size() == 1);
  CHECK(world.state.runs.find(hooked_key) == nullptr);
  start.hooks.verdict = runs::HookVerdict{.context = "more"};
  CHECK(world.run(start).status == 201);
  CHECK(world.calls().size() == 1);
  CHECK(world.state.runs.find(hooked_key)->active->additional_context == "more");
}

TEST_CASE("nobody is called who would not be waited for") {
  Hooked world(
      {{.name = "a", .events = {"UserPromptSubmit"}, .blocking = true}, {.name = "b", .events = {"UserPromptSubmit"}}});
  CHECK(world.run(world.start()).status == 201);
  CHECK(world.calls() == std::vector<std::string>{R"(UserPromptSubmit:{"prompt":""})"});
}

TEST_CASE("an opening begins once, and again after a shutdown and a reset, also after a replay") {
  Hooked world({{.name = "a", .events = {"SessionStart", "SessionEnd"}}});
  world.run(world.start());
  CHECK(world.source() == R"(SessionStart:{"source":"startup"})");
  world.run(world.finish());
  world.run(world.start());
  world.run(world.finish());
  CHECK(world.calls().size() == 1);
  const ShutDown end{.target = {.key = hooked_key}, .reason = "exit", .last_step = true};
  CHECK(json::find(world.run(end).body, "first") == "true");
  CHECK(world.source() == R"(SessionEnd:{"reason":"exit"})");
  CHECK(json::find(world.run(end).body, "first") == "false");
  CHECK(world.calls().size() == 2);
  world.run(world.start());
  CHECK(world.source() == R"(SessionStart:{"source":"resume"})");
  world.run(ResetSession{.target = {.key = hooked_key}, .reason = "r"});
  world.run(world.start());
  CHECK(world.source() == R"(SessionStart:{"source":"clear"})");
  AgentState again("main");
  for (const std::string& text : world.log) apply(again, decode(*journal::parse_event(text)), Replay::yes);
  CHECK(text_of(again.runs) == text_of(world.state.runs));
}

TEST_CASE("the end of a run calls Stop or StopFailure") {
  Hooked world({{.name = "a", .events = {"Stop", "StopFailure"}}});
  world.run(world.start());
  world.run(world.finish());
  CHECK(world.source() == R"(Stop:{"response":"","last_assistant_message":"","stop_hook_active":false})");
  world.run(world.start());
  FinishRun failed = world.finish();
  failed.status = RunStatus::failed;
  failed.error = R"({"code":"x"})";
  world.run(failed);
  CHECK(world.source() == R"(StopFailure:{"reason":"x"})");
}
