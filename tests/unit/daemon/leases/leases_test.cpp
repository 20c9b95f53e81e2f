#include "daemon/leases/leases.hpp"

#include "tests/unit/daemon/leases/work_fixture.hpp"

using namespace sessiond;
using testing::WorkFixture;

namespace {

constexpr std::int64_t lease_ms = 60'000;
constexpr std::int64_t stopped_ms = 501;  // beyond what a loop may be late

struct WithRun : WorkFixture {
  WithRun() : hold(begin_run(lease_ms)) {}
  ~WithRun() { end(); }
  leases::Leases& leases() const { return work().claims.leases(); }
  std::size_t active() const { return leases().counters().active; }
  void renew(leases::Leases::Call call = {}) { leases().renew("main", key, hold, call); }
  // As a call of the runner does: in its turn, when what was said before is stored.
  void say(std::string text) {
    const auto turn = await(leases().turn("main", hold.run_id, runs().active->token));
    renew({.said = std::move(text)});
  }
  void wait_until_idle(std::int64_t most_ms) {
    idle.reset();
    const auto wait = [](WithRun& f, std::int64_t ms) -> asio::awaitable<bool> {
      co_await f.leases().wait_until_idle({"main", key}, ms, nullptr);
      co_return true;
    };
    start(wait(*this, most_ms), idle);
    settle();
  }

  decide::RunHold hold;
  std::optional<bool> idle;  // set when the wait has ended
};

}  // namespace

TEST_CASE("a run whose runner is silent ends with its lease") {
  WithRun f;
  f.turn(lease_ms - 1);
  CHECK(f.active() == 1);
  f.turn(1);
  f.run_until([&] { return f.active() == 0; });
  CHECK(f.leases().counters().lost == 1);
  CHECK(!f.runs().active);
}

TEST_CASE("a lease begins anew with each call of the runner") {
  WithRun f;
  f.turn(lease_ms - 1);
  f.renew();
  CHECK(f.leases().lease_ends_at("main", f.key) == f.clock.wall + lease_ms);
  f.turn(1);  // it would have ended
  f.turn(lease_ms - 2);
  CHECK(f.active() == 1);
  f.turn(1);
  f.run_until([&] { return f.active() == 0; });
}

TEST_CASE("a lease that is renewed while its end waits for its turn goes on") {
  WithRun f;
  auto turn = f.await(f.leases().turn("main", f.hold.run_id, f.runs().active->token));
  f.turn(lease_ms);  // it is about to end
  f.renew();
  turn.reset();
  f.settle();
  CHECK(f.active() == 1);
  CHECK(f.runs().active);
  CHECK(f.leases().counters().lost == 0);
  f.turn(lease_ms);
  f.run_until([&] { return f.active() == 0; });
  CHECK(f.leases().counters().lost == 1);
}

TEST_CASE("a daemon that was stopped does not end its runs at once") {
  WithRun f;
  f.settle();  // the loop sleeps
  f.turn(lease_ms + stopped_ms);
  CHECK(f.active() == 1);
  f.turn(9'999);
  CHECK(f.active() == 1);
  f.turn(1);
  f.run_until([&] { return f.active() == 0; });
  CHECK(f.leases().counters().lost == 1);
}

TEST_CASE("a run that could not be ended is ended a second later") {
  WithRun f;
  f.fail_disk();
  f.turn(lease_ms);
  f.run_until([&] { return !ledger::status_of(f.ledger().parts()).refusal.empty(); });
  f.heal_disk();
  CHECK(f.active() == 1);
  f.run_until([&] {  // the journal is asked once a second
    f.turn(400);     // no more, or the daemon was stopped
    return f.active() == 0;
  });
  CHECK(!f.runs().active);
}

TEST_CASE("what a runner says is stored after a second") {
  WithRun f;
  f.say("Hello");
  f.turn(999);
  CHECK(f.runs().partial.empty());
  f.turn(1);
  f.run_until([&] { return f.runs().partial == "Hello"; });
  f.say(", world");
  f.turn(1'000);
  f.run_until([&] { return f.runs().partial == "Hello, world"; });
}

TEST_CASE("a run that does not heed its abort ends after the grace") {
  WithRun f;
  const auto aborted = f.run(decide::AbortRun{.target = {.key = f.key}, .run_id = f.hold.run_id});
  REQUIRE_MESSAGE(aborted.has_value(), aborted.error().detail);
  f.turn(4'999);
  CHECK(f.active() == 1);
  f.renew();  // helps nothing
  f.turn(1);
  f.run_until([&] { return f.active() == 0; });
  CHECK(f.leases().counters().lost == 0);
}

TEST_CASE("after a restart a lease has at least ten seconds, also when the wall clock was set ahead") {
  WithRun f;
  f.clock.wall += 3'600'000;
  f.restart();
  CHECK(f.active() == 1);
  f.turn(9'999);
  CHECK(f.active() == 1);
  f.turn(1);
  f.run_until([&] { return f.active() == 0; });
}

TEST_CASE("a queued run ends when it is too old, and one that starts before does not") {
  decide::Rules rules;
  rules.runs.queue_max_age_ms = 100'000;
  WorkFixture f(rules);
  const auto queue = [&f](const char* id) {
    const auto queued = f.run(decide::StartRun{.target = {.key = f.key}, .run_id = id, .queue_only = true});
    REQUIRE_MESSAGE(queued.has_value(), queued.error().detail);
  };
  leases::Leases& leases = f.work().claims.leases();
  queue("r1");
  CHECK(leases.counters().queued == 1);
  f.turn(90'000);  // of its age, what had passed before this took it up goes by the system's clocks
  CHECK(leases.counters().queued == 1);
  f.turn(10'000);
  f.run_until([&] { return leases.counters().queued == 0; });
  queue("r2");
  const auto claimed = f.run(decide::ClaimRun{.target = {.key = f.key}, .run_id = "r2"});
  REQUIRE_MESSAGE(claimed.has_value(), claimed.error().detail);
  CHECK(leases.counters().queued == 0);
  CHECK(leases.counters().active == 1);
}

TEST_CASE("who waits until a session is idle hears when its run ends, or that it does not in time") {
  WithRun f;
  f.wait_until_idle(10'000);
  f.turn(9'999);
  CHECK(!f.idle);
  f.turn(1);
  f.run_until([&] { return f.idle.has_value(); });
  CHECK(f.runs().active);
  f.wait_until_idle(600'000);
  CHECK(!f.idle);
  f.turn(lease_ms - 10'000);
  f.run_until([&] { return f.idle.has_value(); });
  CHECK(!f.runs().active);
  f.wait_until_idle(600'000);
  CHECK(f.idle);
}

TEST_CASE("who waits until a session is idle does not hold up the end of the daemon") {
  WithRun f;
  f.wait_until_idle(600'000);
  CHECK(!f.idle);
  f.work().drain();
  f.run_until([&] { return f.idle.has_value(); });
}
