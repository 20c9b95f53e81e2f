#include "daemon/decide/run_book.hpp"

#include <map>
#include <random>

#include "daemon/decide/approval_commands.hpp"
#include "daemon/decide/run_commands.hpp"
#include "daemon/decide/takeover_commands.hpp"
#include "tests/unit/daemon/decide/book_on_paper.hpp"
#include "tests/unit/daemon/decide/world.hpp"

using namespace sessiond;
using namespace sessiond::decide;

namespace {

constexpr const char* run_key = "agent:main:slack:direct:u1";

transcripts::NewEntry message(const char* role, const std::string& text) {
  transcripts::NewEntry entry{.type = "message", .role = role, .stamp = true};
  entry.body = R"({"role":")" + std::string(role) + R"(","content":)" + json::quote(text) + "}";
  return entry;
}

struct WithRuns : World {
  WithRuns() { run(CreateSession{.key = run_key, .session_id = "s"}); }
  const SessionRuns& runs() const { return *state.runs.find(run_key); }
  RunHold hold() const { return {.run_id = runs().active->id, .fence = runs().fence}; }

  // One random command; refusals change nothing.
  void step(std::mt19937& random) {
    const auto roll = [&random](int sides) { return static_cast<int>(random() % static_cast<unsigned>(sides)); };
    const auto attempt = [this](auto command) {
      if (auto decided = ask(std::move(command))) commit(std::move(*decided));
    };
    now += roll(2'000);
    const SessionRuns* there = state.runs.find(run_key);
    const bool active = there != nullptr && there->active;
    const Target target{.key = run_key};
    switch (roll(18)) {
      case 0:
      case 1:
      case 2: {
        const char* modes[] = {"", "queue", "steer", "interrupt", "reject"};
        StartRun command{.target = target, .when_busy = modes[roll(5)], .queue_only = roll(2) == 0};
        for (int i = roll(3); i > 0; --i) command.input.push_back(message("user", "text " + std::to_string(now)));
        return attempt(command);
      }
      case 3:
        if (there != nullptr && !there->queued.empty())
          attempt(ClaimRun{.target = target, .run_id = there->queued.front().id, .terms = {.runner = "r"}});
        return;
      case 4:
      case 5:
        if (active)
          attempt(
              RunEvents{.target = target,
                        .hold = hold(),
                        .n = there->calls + 1,
                        .events = {{"text.delta", R"({"text":"wörd "})"},
                                   {"step.started", R"({"step":)" + std::to_string(there->active->steps + 1) + "}"}},
                        .pulse = {.known = true, .calls = there->calls, .text = "earlier "}});
        return;
      case 6:
        if (active)
          attempt(RunEvents{.target = target,
                            .hold = hold(),
                            .steered = there->steered.empty() ? std::vector<std::string>{}
                                                              : std::vector{there->steered.front().entry_id}});
        return;
      case 7:
        if (active) attempt(FinishRun{.target = target, .hold = hold(), .entries = {message("assistant", "answer")}});
        return;
      case 8:
        return attempt(AbortRun{.target = target});
      case 9: {
        using Why = EndRun::Why;
        constexpr Why whys[] = {Why::lease_lost, Why::idle_timeout, Why::abort_grace};
        if (active) attempt(EndRun{.target = target, .hold = hold(), .why = whys[roll(3)]});
        return;
      }
      case 10:
        if (roll(4) == 0) attempt(ResetSession{.target = target});
        return;
      case 11:
        if (active)
          attempt(AskApproval{
              .target = target, .hold = hold(), .tool = "bash", .call_id = std::to_string(roll(5)), .age_now = now});
        return;
      case 12:
        if (there != nullptr && !there->approvals.all().empty())
          attempt(ExpireApproval{.target = target, .id = there->approvals.all().back().id});
        return;
      case 13:
        return attempt(TakeOver{.target = target, .stop = roll(3) == 0});
      case 14: {
        using Answered = HandBack::Answered;
        constexpr Answered answered[] = {Answered::seen, Answered::all, Answered::none};
        return attempt(HandBack{.target = target, .answered = answered[roll(3)], .note = roll(2) == 0 ? "" : "a note"});
      }
      case 15:
        return attempt(Outbound{.target = target, .text = "a word", .takes_over = roll(3) == 0});
      default:
        if (there != nullptr && !there->queued.empty())
          attempt(AbortRun{.target = target, .run_id = there->queued.back().id});
        return;
    }
  }
};

// Lets a book that was read again take in all events since the beginning. It skips those that it holds.
std::string caught_up(RunBook book, const std::vector<std::string>& log) {
  for (const std::string& text : log) {
    auto event = journal::parse_event(text);
    REQUIRE(event);
    book.apply(decode(*std::move(event)));
  }
  return text_of(std::move(book));
}

}  // namespace

TEST_CASE("a book is the same after a restart at any moment") {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    WithRuns world;
    BookOnPaper<RunBook> paper;
    paper.write(world.state.runs);
    std::vector<RunBook> read{paper.read()};
    for (int i = 0; i < 120; ++i) {
      world.step(random);
      if (random() % 10 != 0) continue;
      if (random() % 3 == 0) world.state.runs.unwritten().start_over();
      paper.write(world.state.runs, 1 + random() % 3, [&] { world.step(random); });
      CHECK(text_of(paper.read()) == text_of(world.state.runs));
      read.push_back(paper.read());
    }
    const std::string live = text_of(world.state.runs);
    for (const RunBook& book : read) CHECK(caught_up(book, world.log) == live);
  }
}

TEST_CASE("what was not written of a book is written with the next changes") {
  std::mt19937 random(7);
  WithRuns world;
  BookOnPaper<RunBook> paper;
  for (int i = 0; i < 300; ++i) {
    world.step(random);
    if (i % 7 == 0) {  // the disk is full
      BookChanges lost;
      if (random() % 2 == 0) world.state.runs.take_changes(lost, {.records = 1});
      while (!world.state.runs.take_changes(lost)) {
      }
      world.step(random);
      while (!world.state.runs.unwritten().give_back(lost, 2)) {
      }
      CHECK(world.state.runs.unwritten().is_dirty());
    }
    if (i % 11 != 0) continue;
    paper.write(world.state.runs);
    CHECK(text_of(paper.read()) == text_of(world.state.runs));
  }
}

TEST_CASE("a change of one run does not write those that have ended") {
  WithRuns world;
  BookOnPaper<RunBook> paper;
  for (int i = 0; i < 50; ++i) {
    world.run(StartRun{.target = {.key = run_key}});
    world.run(FinishRun{.target = {.key = run_key}, .hold = world.hold(), .entries = {message("assistant", "answer")}});
  }
  paper.write(world.state.runs);
  const std::size_t before = paper.written();
  world.run(StartRun{.target = {.key = run_key}});
  paper.write(world.state.runs);
  CHECK(paper.written() == before + 2);  // the session, and that the run does not wait
  world.run(FinishRun{.target = {.key = run_key}, .hold = world.hold(), .entries = {message("assistant", "answer")}});
  paper.write(world.state.runs);
  CHECK(paper.written() == before + 6);  // the same, the run, and how it was finished
}

TEST_CASE("what an earlier version has dropped is told to whatever run is next") {
  auto book = RunBook::from_json(
      R"({"seq":5,"fenceFloor":0,"sessions":{"k":{"fence":1,"overflow":{"dropped":2,"lines":["a","b"],"entryIds":["1",""]}}}})");
  REQUIRE(book);
  book->apply(
      decode(journal::make_event({.seq = 6, .type = journal::EventType::run_queued, .agent = "main", .key = "k"},
                                 R"({"runId":"r","sessionId":"s","topic":null,"status":"queued","attempt":1,"input":[],
                                      "replyTo":{"channel":"slack"},"dropped":["c"],"droppedIds":["3"]})")));
  const SessionRuns& runs = *book->find("k");
  const runs::Overflow* told = runs.overflow_for(runs.queued.front());
  REQUIRE(told != nullptr);
  CHECK(told->text() == "[Queue overflow] Dropped 3 messages.\n- a\n- b\n- c");
  CHECK(told->entry_ids() == std::vector<std::string>{"1", "", "3"});
  BookOnPaper<RunBook> paper;
  paper.write(*book);
  const RunBook again = paper.read();
  CHECK(again.find("k")->overflows.size() == 1);
  CHECK(!again.find("k")->overflows.front().of);
}

TEST_CASE("each run ends once, only one of a session is active, and none starts while a person speaks") {
  for (unsigned seed = 100; seed < 160; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    WithRuns world;
    for (int i = 0; i < 200; ++i) world.step(random);
    std::map<std::string, int> finished;
    std::map<std::string, int> known;
    std::string active;
    std::uint64_t fence = 0;
    bool is_held = false;
    for (const std::string& text : world.log) {
      const auto event = journal::parse_event(text);
      const std::string id = json::string_at(event->data, "runId").value_or("");
      switch (event->envelope.type) {
        case journal::EventType::run_queued:
          CHECK(finished[id] == 0);
          ++known[id];
          break;
        case journal::EventType::run_started:
          CHECK(active.empty());
          CHECK_FALSE(is_held);
          CHECK(finished[id] == 0);
          active = id;
          ++known[id];
          ++fence;
          break;
        case journal::EventType::session_takeover:
          is_held = true;
          break;
        case journal::EventType::session_handback:
          is_held = false;
          break;
        case journal::EventType::run_finished:
          CHECK(++finished[id] == 1);
          if (active == id) active.clear();
          break;
        default:
          break;
      }
    }
    const SessionRuns* runs = world.state.runs.find(run_key);
    if (runs == nullptr) continue;
    CHECK(runs->fence == fence);
    CHECK((runs->active ? runs->active->id : "") == active);
    for (const Run& run : runs->queued) CHECK(finished[run.id] == 0);
    for (const auto& [id, times] : known)
      if (finished[id] == 0) CHECK((id == active || runs->find_queued(id) != nullptr));
  }
}

TEST_CASE("a fence rises also over a deletion") {
  WithRuns world;
  world.run(StartRun{.target = {.key = run_key}});
  CHECK(world.runs().fence == 1);
  world.run(DeleteSession{.target = {.key = run_key}});
  CHECK(world.state.runs.find(run_key) == nullptr);
  world.run(CreateSession{.key = run_key, .session_id = "s2"});
  world.run(StartRun{.target = {.key = run_key}});
  CHECK(world.runs().fence == 2);
}

TEST_CASE("a book of an earlier version is read whole, and written as records") {
  const std::string stored =
      R"({"seq":9,"fenceFloor":2,"sessions":{"k":{"fence":3,"active":{"runId":"r1","sessionId":"s","topic":"t",)"
      R"("status":"aborting","runner":"one","attempt":2,"retryOf":"r0","createdAt":1,"startedAt":2,"endedAt":null,)"
      R"("steps":1,"input":["a"],"replyTo":{"channel":"slack","to":"C1"},"model":"m","maxSteps":0,"stoppedBy":"me",)"
      R"("superseded":true,"token":"tok","readyAt":1,"ageCreatedAt":5,"leaseMs":60000,"idleTimeoutMs":0,"origin":0,)"
      R"("inStep":true,"collects":false,"deleted":["b"],"settled":true},"partial":"half","calls":4,)"
      R"("steered":[{"entryId":"c","text":"wait"}],"queued":[{"runId":"r2","sessionId":"s","topic":null,)"
      R"("status":"queued","attempt":1,"createdAt":3,"startedAt":null,"endedAt":null,"steps":0,"input":["d","e"],)"
      R"("token":"","readyAt":4,"leaseMs":0,"idleTimeoutMs":0,"origin":3,"inStep":false,"collects":true,)"
      R"("texts":["first",""]}],"overflows":[{"replyTo":null,"topic":"","dropped":2,"lines":["x"],"entryIds":["y"]}],)"
      R"("ended":[{"runId":"r0","key":"k","response":"1.0"}],"approvals":[{"id":"p","runId":"r1","tool":"bash",)"
      R"("args":{"n":1e400},"callId":null,"decision":"deny","source":"answer","by":"me","channel":"slack","to":"C1",)"
      R"("askedAt":5,"deadline":6,"resolvedAt":7,"ageDeadline":8}],"opening":{"open":false,"next":"resume",)"
      R"("reason":"night","shutDownAt":7},"lastRunner":"one","takeover":{"name":"Hanne","by":"me","since":1,"until":2,)"
      R"("forMs":3,"ageUntil":4,"ageBegun":5,"sendPolicyBefore":null,"waiting":[{"entryId":"f","seq":6,"replyTo":null,)"
      R"("since":7,"text":"hm","topic":"t"}],"words":[{"replyTo":{"to":"C1"},"seenSeq":3}]},)"
      R"("finished":[{"runId":"r0","fence":2,"token":"tok"}]}}})";
  auto book = RunBook::from_json(stored);
  REQUIRE(book);
  CHECK_FALSE(book->unwritten().is_dirty());  // it is taken over with its first change
  BookOnPaper<RunBook> paper;
  paper.write(*book);
  const std::string ended = R"(,"ended":[{"runId":"r0","key":"k","response":"1.0"}])";
  const std::string finished = R"(,"finished":[{"runId":"r0","fence":2,"token":"tok"}])";
  std::string head = stored.substr(stored.find("{\"fence\":3"));
  head.erase(head.find(ended), ended.size());
  head.erase(head.find(finished), finished.size());
  const std::size_t queued = head.find(R"(,"queued":[)");
  const std::string queued_run = head.substr(queued + 11, head.find("],\"overflows\"") - queued - 11);
  head.erase(queued, queued_run.size() + 12);
  CHECK(paper.text() == R"(f k r0 #0 {"runId":"r0","fence":2,"token":"tok"})"
                        "\nq k r2 #0 " +
                            queued_run +
                            "\n"
                            R"(r k r0 #1 {"runId":"r0","key":"k","response":"1.0"})"
                            "\n"
                            "s k #0 " +
                            head.substr(0, head.size() - 3) + R"(,"queue":["r2"]})" + "\n" +
                            R"({"end":9,"open":2,"fenceFloor":2})");
  CHECK(book->find("k")->takeover->policy_before == "");
  CHECK(book->find("k")->active->max_steps == 0);
  CHECK(book->taken_over().contains("k"));
  // A version before kept one finished run, and not in a list.
  auto old = RunBook::from_json(
      R"({"seq":1,"fenceFloor":0,"sessions":{"k":{"fence":3,"finished":{"runId":"r0","fence":2,"token":"tok"}}}})");
  REQUIRE(old);
  REQUIRE(old->find("k")->find_finished("r0") != nullptr);
  CHECK(old->find("k")->find_finished("r0")->fence == 2);
}

TEST_CASE("takeover: what a shared store says of the send policy is put back, also where it says null") {
  struct Said {
    std::string member;  // of the entry
    std::string before;  // the value that a takeover keeps; empty: absent
  };
  World world;
  world.rules.shared = true;
  for (const auto& [member, before] :
       {Said{"", ""}, Said{R"(,"sendPolicy":null)", ""}, Said{R"(,"sendPolicy":"allow")", R"("allow")"}}) {
    CAPTURE(member);
    const std::string number = std::to_string(world.next_seq);
    const std::string key = "agent:main:slack:channel:c" + number;
    world.store(key, R"({"sessionId":"s)" + number + R"(","updatedAt":1)" + member + "}");
    world.run(TakeOver{.target = {.key = key}});
    CHECK(world.field(key, "sendPolicy") == R"("deny")");
    CHECK(world.state.runs.find(key)->takeover->policy_before == before);
    world.run(HandBack{.target = {.key = key}});
    CHECK(world.field(key, "sendPolicy") == (before.empty() ? "-" : before));
  }
}

namespace {

StartRun waits(const std::string& text) {
  return {.target = {.key = run_key}, .input = {message("user", text)}, .queue_only = true};
}

struct WithWaiting : WithRuns {
  WithWaiting() {
    run(waits("one"));
    run(ClaimRun{.target = {.key = run_key}, .run_id = waiting().id, .terms = {.runner = "r"}});
    run(waits("two"));
  }
  const Run& waiting() const { return runs().queued.front(); }
};

}  // namespace

TEST_CASE("input that joins a run is told without the input that waits already") {
  WithWaiting world;
  const std::vector<std::string> before = world.waiting().input;
  REQUIRE(before.size() == 1);
  const Decision joined = world.run(waits("three"));
  const auto* told = joined.events.back().as<RunInputs>();
  REQUIRE(told != nullptr);
  CHECK(told->run_id == world.waiting().id);
  CHECK(told->left.empty());
  REQUIRE(told->joined.size() == 1);
  CHECK(world.waiting().input == std::vector{before.front(), told->joined.front()});
  CHECK(world.waiting().texts == std::vector<std::string>{"two", "three"});
  CHECK(world.waiting().ready_at == told->ready_at);
  std::size_t shown = 0;
  for ([[maybe_unused]] const auto id : json::elements(json::find(joined.body, "input").value_or("[]"))) ++shown;
  CHECK(shown == 2);
}

TEST_CASE("input that joins a full queue is told with the input that it pushes out") {
  WithWaiting world;
  world.run(PatchSession{.target = {.key = run_key}, .patch = R"({"queueCap":2})"});
  world.run(waits("three"));
  const std::vector<std::string> before = world.waiting().input;
  const Decision joined = world.run(waits("four"));
  const auto* told = joined.events.back().as<RunInputs>();
  REQUIRE(told != nullptr);
  CHECK(told->left == std::vector{before.front()});
  CHECK(world.waiting().input == std::vector{before.back(), told->joined.front()});
  CHECK(world.waiting().texts == std::vector<std::string>{"three", "four"});
  REQUIRE(told->overflow.size() == 1);
  CHECK(told->overflow.front().text == "two");
}

TEST_CASE("input that joins a run with other terms is told with the whole run") {
  WithWaiting world;
  StartRun other = waits("three");
  other.terms.model = "m2";
  const Decision joined = world.run(other);
  const auto* told = joined.events.back().as<RunTold>();
  REQUIRE(told != nullptr);
  CHECK(told->run.model == "m2");
  CHECK(told->run.input.size() == 2);
  CHECK(world.waiting().model == "m2");
  CHECK(world.waiting().texts == std::vector<std::string>{"two", "three"});
}
