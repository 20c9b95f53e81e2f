#include "daemon/decide/approval.hpp"

#include "daemon/decide/approval_commands.hpp"
#include "tests/unit/daemon/decide/book_on_paper.hpp"
#include "tests/unit/daemon/decide/world.hpp"

using namespace sessiond;
using namespace sessiond::decide;

namespace {

constexpr const char* asked_key = "agent:main:slack:direct:u1";

struct Questions : World {
  explicit Questions(std::string entry = "{}") {
    run(CreateSession{.key = asked_key, .session_id = "s", .entry = edit_of(entry)});
    run(StartRun{.target = {.key = asked_key}});
  }
  const SessionRuns& runs() const { return *state.runs.find(asked_key); }
  AskApproval question(std::string tool, std::string call_id = "") const {
    return {.target = {.key = asked_key},
            .hold = {.run_id = runs().active->id, .fence = runs().fence},
            .tool = std::move(tool),
            .call_id = std::move(call_id)};
  }
  // The runner's token is `t`, as in World; other commands come from it, too, unless they say so.
  Result<Decision> ask_as(std::string_view actor, const AnswerApproval& answer) {
    Context by = context();
    by.actor = actor;
    return decide::decide(state, answer, by);
  }
};

Approval of_run(int number, std::string decision) {
  return {.id = std::to_string(number), .run_id = "r", .tool = "bash", .decision = std::move(decision)};
}

}  // namespace

TEST_CASE("an approval is read back as it was stored") {
  const Approval approval{.id = "a",
                          .run_id = "r",
                          .tool = "bash",
                          .args = R"({"command":"ls"})",
                          .call_id = "c",
                          .decision = "allow",
                          .source = "answer",
                          .asked_by = "r",
                          .by = "t",
                          .reason = "fine",
                          .asked_at = 1,
                          .deadline = 2,
                          .age_deadline = 3};
  const std::string stored = json::to_json(approval);
  CHECK(json::to_json(json::from_json<Approval>(stored)) == stored);
  CHECK(json::find(approval_json("main", "k", Approval{}), "decision") == "null");
}

TEST_CASE("a list keeps what is open, and drops the oldest of what is decided") {
  ApprovalList list;
  list.put(of_run(0, ""));
  for (int i = 1; i <= 1500; ++i) list.put(of_run(i, "deny"));
  CHECK(list.all().size() == 1000);
  CHECK(list.all().front().is_open());
  CHECK(list.all().back().id == "1500");
  list.end_run();
  CHECK(list.all().size() == 100);
  CHECK(list.open() == 0);
  CHECK(list.all().back().id == "1500");
}

TEST_CASE("a list has a limit of bytes") {
  ApprovalList list;
  for (int i = 0; i < 200; ++i) {
    Approval approval = of_run(i, "deny");
    approval.args = R"({"text":")" + std::string(60'000, 'x') + "\"}";
    list.put(std::move(approval));
  }
  CHECK(list.all().size() < 80);
  CHECK(list.all().back().id == "199");
}

TEST_CASE("questions with a call id stay until their run ends") {
  ApprovalList list;
  Approval question = of_run(0, "deny");
  question.call_id = "c";
  for (int i = 0; i < 1000; ++i) {
    question.id = std::to_string(i);
    CHECK(list.has_room_for(question));
    list.put(question);
  }
  CHECK(!list.has_room_for(question));
  for (int i = 1000; i < 1100; ++i) {
    CHECK(list.has_room_for(of_run(i, "deny")));
    list.put(of_run(i, "deny"));
  }
  CHECK(list.find("0") != nullptr);
  CHECK(list.find("1098") == nullptr);
  list.end_run();
  CHECK(list.find("0") == nullptr);
  question.run_id = "next";
  CHECK(list.has_room_for(question));
}

TEST_CASE("the first answer counts, and never that of the token that asked") {
  Questions world;
  world.run(world.question("bash"));
  const std::string id = world.runs().approvals.all().front().id;
  const AnswerApproval allow{.target = {.key = asked_key}, .id = id, .allow = true, .for_session = true};
  const auto own = world.ask_as("t", allow);
  REQUIRE(!own);
  CHECK(own.error().code == Code::forbidden);
  auto first = world.ask_as("person", allow);
  REQUIRE(first);
  world.commit(std::move(*first));
  CHECK(at(*world.state.find_key(asked_key)->entry(), "allowedTools") == R"(["bash"])");
  const auto later = world.ask_as("other", {.target = {.key = asked_key}, .id = id});
  REQUIRE(later);
  CHECK(later->events.empty());
  CHECK(json::string_at(later->body, "decision") == "allow");
  CHECK(json::string_at(later->body, "by") == "person");
}

TEST_CASE("an approval that was allowed for the session is there after a replay") {
  Questions world;
  world.run(world.question("bash"));
  auto answered = world.ask_as("person", {.target = {.key = asked_key},
                                          .id = world.runs().approvals.all().front().id,
                                          .allow = true,
                                          .for_session = true});
  REQUIRE(answered);
  world.commit(std::move(*answered));
  AgentState again("main");
  for (const std::string& text : world.log) apply(again, decode(*journal::parse_event(text)), Replay::yes);
  CHECK(picture(again) == picture(world.state));
  CHECK(text_of(again.runs) == text_of(world.state.runs));
}

TEST_CASE("an approval whose deadline has passed is denied once") {
  Questions world;
  world.run(world.question("bash"));
  const ExpireApproval expire{.target = {.key = asked_key}, .id = world.runs().approvals.all().front().id};
  world.run(expire);
  CHECK(world.runs().approvals.all().front().source == "default");
  const std::size_t events = world.log.size();
  world.run(expire);
  CHECK(world.log.size() == events);
}

TEST_CASE("the end of a run denies what is open, in the same commit and before") {
  Questions world;
  world.run(world.question("bash"));
  const auto done = world.run(FinishRun{.target = {.key = asked_key}, .hold = world.question("").hold});
  std::vector<journal::EventType> types;
  for (const std::string& text : world.log) types.push_back(journal::parse_event(text)->envelope.type);
  REQUIRE(types.size() >= 2);
  CHECK(types[types.size() - 2] == journal::EventType::approval_resolved);
  CHECK(types.back() == journal::EventType::run_finished);
  CHECK(world.runs().approvals.all().front().source == "run_ended");
}

TEST_CASE("an approver who cannot see the question is no approver") {
  Questions world;
  world.rules.runs.require_approver = true;
  AskApproval unseen = world.question("bash");
  unseen.can_be_seen = false;
  world.run(unseen);
  CHECK(world.runs().approvals.all().back().source == "default");
  world.run(world.question("bash"));
  CHECK(world.runs().approvals.all().back().is_open());
}
