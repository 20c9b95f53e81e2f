#include "daemon/leases/outbox.hpp"

#include "tests/unit/daemon/leases/work_fixture.hpp"

using namespace sessiond;
using testing::WorkFixture;

namespace {

constexpr std::int64_t delivery_lease_ms = 60'000;

struct Bridge : WorkFixture {
  Bridge() {
    claim(0);  // from now on deliveries are kept for it
    run_until([&] { return claimed.has_value(); });
    REQUIRE(is_empty());
  }
  ~Bridge() { end(); }
  leases::Outbox& outbox() const { return work().outbox; }
  void claim(std::int64_t wait_ms) {
    claimed.reset();
    start(outbox().claim({.part = {.token = "bridge", .channel = "slack"},
                          .sees = [](const decide::AgentState&, const decide::Delivery&) { return true; },
                          .actor = "bridge",
                          .lease_ms = delivery_lease_ms,
                          .wait_ms = wait_ms,
                          .gone = [this] { return has_gone; }}),
          claimed);
    settle();
  }
  bool is_empty() const { return claimed && *claimed && (*claimed)->empty(); }
  void send() {
    const auto sent = run(decide::Outbound{.target = {.key = key}, .text = "hello"});
    REQUIRE_MESSAGE(sent.has_value(), sent.error().detail);
  }
  // Waits for what is claimed, and returns its attempt.
  std::int64_t attempt() {
    run_until([&] { return claimed.has_value(); });
    REQUIRE(claimed->has_value());
    REQUIRE((*claimed)->size() == 1);
    for (const std::string_view each : json::elements((*claimed)->front())) {
      id = json::string_at(each, "deliveryId").value();
      return json::int_at(each, "attempt").value();
    }
    return 0;
  }

  bool has_gone = false;
  std::string id{};
  std::optional<Result<std::vector<std::string>>> claimed{};
};

}  // namespace

TEST_CASE("a claim that waits gets the delivery that is made") {
  Bridge f;
  f.claim(30'000);
  CHECK(!f.claimed);
  f.send();
  CHECK(f.attempt() == 1);
}

TEST_CASE("a claim ends at its time, or when the daemon drains, with nothing") {
  Bridge f;
  f.claim(30'000);
  f.turn(29'999);
  CHECK(!f.claimed);
  f.turn(1);
  f.run_until([&] { return f.claimed.has_value(); });
  CHECK(f.is_empty());
  f.claim(30'000);
  f.work().drain();
  f.run_until([&] { return f.claimed.has_value(); });
  CHECK(f.is_empty());
}

TEST_CASE("a client that has gone gets no delivery") {
  Bridge f;
  f.claim(30'000);
  f.has_gone = true;
  f.send();
  f.run_until([&] { return f.claimed.has_value(); });
  REQUIRE(!f.claimed->has_value());
  CHECK(f.claimed->error().code == Code::request_timeout);
  f.has_gone = false;
  f.claim(0);
  CHECK(f.attempt() == 1);
}

TEST_CASE("a delivery whose lease ends goes to the claim that waits") {
  Bridge f;
  f.send();
  f.claim(0);
  CHECK(f.attempt() == 1);
  f.claim(600'000);
  f.turn(delivery_lease_ms - 1);
  CHECK(!f.claimed);
  f.turn(1);
  CHECK(f.attempt() == 2);
}

TEST_CASE("a delivery that failed once waits for its next try") {
  Bridge f;
  f.send();
  f.claim(0);
  CHECK(f.attempt() == 1);
  REQUIRE(f.run(decide::NackDelivery{.id = f.id,
                                     .attempt = 1,
                                     .error = R"({"code":"x"})",
                                     .retry_after_ms = 5'000,
                                     .sees = [](const auto&, const auto&) { return true; }}));
  f.claim(600'000);
  f.turn(4'999);
  CHECK(!f.claimed);
  f.turn(1);
  CHECK(f.attempt() == 2);
}

TEST_CASE("a delivery that nobody sends is too old in the end") {
  Bridge f;
  f.send();
  CHECK(f.outbox().counts().pending == 1);
  const std::int64_t most = f.ledger().rules().deliveries.max_age_ms;
  f.turn(most - 1);
  CHECK(f.outbox().counts().pending == 1);
  f.turn(1);
  f.run_until([&] { return f.outbox().counts().failed == 1; });
}

TEST_CASE("after a restart a lease has at least ten seconds, also when the clock was set ahead") {
  Bridge f;
  f.send();
  f.claim(0);
  CHECK(f.attempt() == 1);
  f.clock.wall += 3'600'000;
  f.restart();
  f.claim(600'000);
  f.turn(9'999);
  CHECK(!f.claimed);
  f.turn(1);
  CHECK(f.attempt() == 2);
}
