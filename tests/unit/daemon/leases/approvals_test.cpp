#include "daemon/leases/approvals.hpp"

#include "daemon/decide/approval_commands.hpp"
#include "tests/unit/daemon/leases/work_fixture.hpp"

using namespace sessiond;

namespace {

constexpr std::int64_t timeout_ms = 120'000;

struct WithQuestion : testing::WorkFixture {
  WithQuestion() {
    hold = begin_run(3'600'000);
    const auto asked = run(decide::AskApproval{
        .target = {.key = key}, .hold = hold, .tool = "bash", .timeout_ms = timeout_ms, .age_now = age()});
    REQUIRE_MESSAGE(asked.has_value(), asked.error().detail);
    id = json::string_at(asked->body, "id").value();
  }
  ~WithQuestion() { end(); }
  std::int64_t age() const { return ledger().parts().commits.clock().now(); }
  leases::Approvals& approvals() const { return work().approvals; }
  bool is_open() const { return runs().approvals.find(id)->is_open(); }
  Result<ledger::Reply> answer() {
    return run(decide::AnswerApproval{.target = {.key = key}, .id = id, .allow = true}, "main", {.actor = "person"});
  }

  // Begins to follow it; `looks` counts how often it looked.
  void follow(std::int64_t wait_ms) {
    const auto look = [this]() -> asio::awaitable<Result<bool>> {
      ++looks;
      co_return !is_open();
    };
    start(approvals().follow({.id = id, .wait_ms = wait_ms, .gone = [this] { return has_gone; }, .look = look}),
          followed);
    settle();
  }

  decide::RunHold hold;
  std::string id;
  int looks = 0;
  bool has_gone = false;
  std::optional<Result<void>> followed;
};

}  // namespace

TEST_CASE("a question that nobody answers is denied at its deadline") {
  WithQuestion f;
  CHECK(f.approvals().open() == 1);
  f.turn(timeout_ms - 1);
  CHECK(f.is_open());
  f.turn(1);
  f.run_until([&] { return f.approvals().open() == 0; });
  CHECK(!f.is_open());
  CHECK(f.runs().approvals.find(f.id)->decision == "deny");
}

TEST_CASE("a question that could not be denied is denied a second later") {
  WithQuestion f;
  f.fail_disk();
  f.turn(timeout_ms);
  f.run_until([&] { return !ledger::status_of(f.ledger().parts()).refusal.empty(); });
  f.heal_disk();
  CHECK(f.approvals().open() == 1);
  f.run_until([&] {  // the journal is asked once a second
    f.turn(1'000);
    return f.approvals().open() == 0;
  });
  CHECK(!f.is_open());
}

TEST_CASE("who follows a question hears the answer") {
  WithQuestion f;
  f.follow(30'000);
  CHECK(!f.followed);
  CHECK(f.looks == 1);
  REQUIRE(f.answer().has_value());
  f.run_until([&] { return f.followed.has_value(); });
  CHECK(f.followed->has_value());
  CHECK(f.looks == 2);
}

TEST_CASE("who follows a question looks once more when the time is over") {
  WithQuestion f;
  f.follow(30'000);
  f.turn(29'999);
  CHECK(!f.followed);
  f.turn(1);
  f.run_until([&] { return f.followed.has_value(); });
  CHECK(f.followed->has_value());
  CHECK(f.looks == 2);
}

TEST_CASE("who does not wait looks once") {
  WithQuestion f;
  f.follow(0);
  REQUIRE(f.followed.has_value());
  CHECK(f.followed->has_value());
  CHECK(f.looks == 1);
}

TEST_CASE("who follows a question is answered when the daemon drains") {
  WithQuestion f;
  f.follow(30'000);
  f.work().drain();
  f.run_until([&] { return f.followed.has_value(); });
  CHECK(f.followed->has_value());
}

TEST_CASE("a client that has gone is not told the answer") {
  WithQuestion f;
  f.follow(30'000);
  f.has_gone = true;
  REQUIRE(f.answer().has_value());
  f.run_until([&] { return f.followed.has_value(); });
  REQUIRE(!f.followed->has_value());
  CHECK(f.followed->error().code == Code::request_timeout);
}

TEST_CASE("after a restart with a clock that was set back, a question lasts no longer than at first") {
  WithQuestion f;
  f.clock.wall -= 3'600'000;
  f.restart();
  CHECK(f.approvals().open() == 1);
  f.turn(timeout_ms);
  f.run_until([&] { return f.approvals().open() == 0; });
  CHECK(!f.is_open());
}
