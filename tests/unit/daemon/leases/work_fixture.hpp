// A ledger, and all that the leases keep for a time, on a clock that the test turns: nothing is due before it says so.
#pragma once

#include "daemon/decide/run_commands.hpp"
#include "daemon/leases/work.hpp"
#include "tests/unit/daemon/ledger/ledger_fixture.hpp"
#include "tests/unit/daemon/runtime/fake_clock.hpp"

namespace sessiond::testing {

class WorkFixture : public LedgerFixture {
 public:
  static constexpr const char* key = "agent:main:slack:direct:u1";

  explicit WorkFixture(const decide::Rules& rules = {}) : rules_(rules) {
    clock.wall = store::unix_ms();
    begin();
    decide::CreateSession command{.key = key, .session_id = "s"};
    command.entry.put("deliveryContext", R"({"channel":"slack","to":"u1"})");
    REQUIRE(run(std::move(command)).has_value());
  }
  ~WorkFixture() { end(); }

  FakeClock clock;
  leases::Work& work() const { return *work_; }

  // Ends the requests that wait. A fixture that they refer to calls it before it goes.
  void end() {
    if (!work_) return;
    bool ended = false;
    work_->drain();
    settle();
    asio::co_spawn(io(), work_->stop(), [&ended](const std::exception_ptr&) { ended = true; });
    run_until([&] { return ended; });
    ledger().observe(nullptr);
    work_.reset();
  }
  void restart() {
    end();
    close();
    open();
    begin();
    settle();
  }
  // Lets the loops read the clock, each more than once, and what they read from disk come back.
  void settle() {
    for (int reads = 0; reads < 20; ++reads) {
      bool is_read = false;
      asio::post(ledger().parts().env.disk, [&] { asio::post(io(), [&is_read] { is_read = true; }); });
      run_until([&] { return is_read; });
    }
    for (int times = 0; times < 100; ++times) io().run_one_for(std::chrono::milliseconds(5));
  }
  void turn(std::int64_t ms) {
    clock.turn(ms);
    settle();
  }

  // The runs of the session, as they are in memory.
  const decide::SessionRuns& runs() const {
    const decide::AgentState* state = ledger::loaded_state(ledger().parts(), "main", key);
    REQUIRE(state != nullptr);
    const decide::SessionRuns* found = state->runs.find(key);
    REQUIRE(found != nullptr);
    return *found;
  }
  // The active run's lease, which it begins.
  decide::RunHold begin_run(std::int64_t lease_ms = 60'000) {
    decide::StartRun command{.target = {.key = key}};
    command.terms.lease_ms = lease_ms;
    const auto started = run(std::move(command));
    REQUIRE_MESSAGE(started.has_value(), started.error().detail);
    return {.run_id = runs().active->id, .fence = runs().fence};
  }

 private:
  void begin() {
    ledger().set_clock(clock.clock());
    ledger().rules() = rules_;
    work_ = std::make_unique<leases::Work>(ledger());
    ledger().observe([this](const decide::Change& change) { work_->see(change); });
    work_->start();
  }

  decide::Rules rules_;
  std::unique_ptr<leases::Work> work_;
};

}  // namespace sessiond::testing
