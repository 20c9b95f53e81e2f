#include "daemon/leases/claims.hpp"

#include "tests/unit/daemon/leases/work_fixture.hpp"

using namespace sessiond;
using testing::WorkFixture;

namespace {

// A runner that claims what it is offered, and keeps the id of what it took.
struct Runner {
  Runner(WorkFixture& in, std::string runner) : f(in), name(std::move(runner)) {}
  void claim(std::int64_t wait_ms) {
    f.start(
        f.work().claims.claim(
            {.agent = "main",
             .runner = name,
             .wants =
                 [this](const decide::AgentState&, const decide::Session&) {
                   has_gone = goes_when_offered;
                   return true;
                 },
             .gone = [this] { return has_gone; },
             .wait_ms = wait_ms,
             .take = [this](std::string key, std::string run_id) { return take(std::move(key), std::move(run_id)); }}),
        reply);
    f.settle();
  }
  asio::awaitable<Result<std::optional<ledger::Reply>>> take(std::string key, std::string run_id) {
    const decide::ClaimRun command{.target = {.key = key}, .run_id = run_id, .terms = {.runner = name}};
    const auto decide = [&command](const decide::AgentState& state, const decide::Context& context,
                                   const decide::FetchedLines& lines) {
      return decide::decide(state, command, context, lines);
    };
    auto taken = co_await f.ledger().commit("main", {.actor = "t"}, decide);
    if (!taken) co_return std::unexpected(std::move(taken.error()));
    if (taken->status == 204) co_return std::nullopt;
    took = run_id;
    co_return std::move(*taken);
  }
  bool has_nothing() const { return reply && *reply && !**reply; }

  WorkFixture& f;
  std::string name;
  bool goes_when_offered = false;
  bool has_gone = false;
  std::string took{};
  std::optional<Result<std::optional<ledger::Reply>>> reply{};
};

void queue(WorkFixture& f, const std::string& run_id) {
  const auto queued = f.run(decide::StartRun{.target = {.key = f.key}, .run_id = run_id, .queue_only = true});
  REQUIRE_MESSAGE(queued.has_value(), queued.error().detail);
}

}  // namespace

TEST_CASE("the runner that waits longest gets the run that is queued, and no other one") {
  WorkFixture f;
  Runner first(f, "a");
  Runner second(f, "b");
  first.claim(30'000);
  second.claim(30'000);
  CHECK(f.work().claims.waiting() == 2);
  queue(f, "r");
  f.run_until([&] { return first.reply.has_value(); });
  CHECK(first.took == "r");
  CHECK(!second.reply);
  f.work().drain();
  f.run_until([&] { return second.reply.has_value(); });
  CHECK(second.has_nothing());
}

TEST_CASE("a run that was offered to a client that has gone goes to the next") {
  WorkFixture f;
  Runner first(f, "a");
  Runner second(f, "b");
  first.goes_when_offered = true;
  first.claim(30'000);
  second.claim(30'000);
  queue(f, "r");
  f.run_until([&] { return second.reply.has_value(); });
  CHECK(second.took == "r");
  REQUIRE(first.reply);
  REQUIRE(!*first.reply);
  CHECK(first.reply->error().code == Code::request_timeout);
}

TEST_CASE("a claim for which no run comes ends at its time, with nothing") {
  WorkFixture f;
  Runner runner(f, "a");
  runner.claim(30'000);
  f.turn(29'999);
  CHECK(!runner.reply);
  f.turn(1);
  f.run_until([&] { return runner.reply.has_value(); });
  CHECK(runner.has_nothing());
  Runner hasty(f, "a");
  hasty.claim(0);
  f.run_until([&] { return hasty.reply.has_value(); });
  CHECK(hasty.has_nothing());
}
