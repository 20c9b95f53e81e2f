#include "daemon/runtime/deadlines.hpp"

#include <doctest/doctest.h>

#include <boost/asio/co_spawn.hpp>
#include <compare>
#include <string>

#include "tests/unit/daemon/runtime/fake_clock.hpp"

using namespace sessiond;
using runtime::Deadlines;

namespace {

using Ids = std::vector<std::string>;

// Deadlines on a clock that the test turns, and what they told.
struct Timetable {
  testing::FakeClock fake;
  runtime::Clock clock = fake.clock();
  asio::io_context io{1};
  Ids told;
  std::function<void(const std::string& id)> on_due;
  std::vector<std::int64_t> overslept;
  Deadlines<std::string> deadlines{io, clock,
                                   [this](const std::string& id) {
                                     told.push_back(id);
                                     if (on_due) on_due(id);
                                   },
                                   [this](std::int64_t late_ms) {
                                     overslept.push_back(late_ms);
                                     told.emplace_back("overslept");
                                   }};
  bool has_ended = false;

  void set_in(const std::string& id, std::int64_t ms) { deadlines.set(id, deadlines.now() + ms); }
  Ids fire() {
    told.clear();
    deadlines.fire();
    return told;
  }
  Ids turn(std::int64_t ms) {
    fake.turn(ms);
    return fire();
  }
  // Lets the loop do what it can do at once.
  Ids poll() {
    told.clear();
    io.restart();
    io.poll();
    return told;
  }
  void start() {
    asio::co_spawn(io, deadlines.run(), [this](const std::exception_ptr& thrown) {
      CHECK(!thrown);
      has_ended = true;
    });
  }
};

}  // namespace

TEST_CASE("what is due is told in order, once") {
  Timetable f;
  f.set_in("late", 30);
  f.set_in("soon", 10);
  f.set_in("first of two", 20);
  f.set_in("second of two", 20);
  CHECK(f.deadlines.next() == f.deadlines.now() + 10);
  CHECK(f.turn(9).empty());
  CHECK(f.turn(1) == Ids{"soon"});
  CHECK(!f.deadlines.of("soon"));
  CHECK(f.turn(20) == Ids{"first of two", "second of two", "late"});
  CHECK(f.turn(1'000).empty());
  CHECK(f.deadlines.size() == 0);
  CHECK(f.deadlines.next() == runtime::never);
}

TEST_CASE("the time that was set last counts, and what was erased is not told") {
  Timetable f;
  f.set_in("renewed", 10);
  f.set_in("renewed", 50);
  f.set_in("erased", 10);
  f.deadlines.erase("erased");
  f.deadlines.erase("never set");
  CHECK(f.deadlines.of("renewed") == f.deadlines.now() + 50);
  CHECK(f.turn(10).empty());
  CHECK(f.turn(40) == Ids{"renewed"});
}

TEST_CASE("a callback sets its own id again") {
  Timetable f;
  f.on_due = [&](const std::string& id) { f.set_in(id, 1'000); };
  f.set_in("a", 10);
  CHECK(f.turn(10) == Ids{"a"});
  CHECK(f.turn(999).empty());
  CHECK(f.turn(1) == Ids{"a"});
}

TEST_CASE("a callback erases or puts off what is due in the same round") {
  Timetable f;
  f.on_due = [&](const std::string& id) {
    if (id != "a") return;
    f.deadlines.erase("b");
    f.set_in("c", 100);
    f.deadlines.set("d", f.deadlines.now() - 1);  // another time, and due all the same
  };
  for (const auto* id : {"a", "b", "c", "d"}) f.set_in(id, 10);
  CHECK(f.turn(10) == Ids{"a", "d"});
  CHECK(f.turn(100) == Ids{"c"});
}

TEST_CASE("an id that is always due is told once a round") {
  Timetable f;
  f.on_due = [&](const std::string& id) {
    f.set_in(id, 0);
    f.set_in("new", -5);
  };
  f.set_in("a", 0);
  CHECK(f.fire() == Ids{"a"});
  CHECK(f.fire() == Ids{"new", "a"});
}

TEST_CASE("while the clock does not move, nothing else is told") {
  Timetable f;
  f.set_in("a", 0);
  f.set_in("b", 1);
  CHECK(f.fire() == Ids{"a"});
  CHECK(f.fire().empty());
  CHECK(f.fire().empty());
}

TEST_CASE("what is set before all others wakes the loop") {
  Timetable f;
  f.set_in("late", 60'000);
  f.start();
  CHECK(f.poll().empty());
  f.set_in("late as well", 60'000);
  CHECK(f.poll().empty());
  f.set_in("now", 0);
  CHECK(f.poll() == Ids{"now"});
  f.set_in("now", 0);  // the loop has gone to sleep again
  CHECK(f.poll() == Ids{"now"});
}

TEST_CASE("what is set while the loop is about to wake is told") {
  Timetable f;
  f.start();
  f.poll();
  f.set_in("a", 0);
  f.set_in("b", 0);
  f.deadlines.erase("a");
  CHECK(f.poll() == Ids{"b"});
}

TEST_CASE("a round in between does not make the loop miss what is set then") {
  Timetable f;
  f.set_in("late", 60'000);
  f.start();
  f.poll();
  CHECK(f.fire().empty());
  f.set_in("now", 0);
  CHECK(f.poll() == Ids{"now"});
}

TEST_CASE("oversleeping is told once, before what is due") {
  Timetable f;
  f.set_in("a", 1'000);
  f.start();
  f.poll();
  CHECK(f.turn(1'000 + 501) == Ids{"overslept", "a"});
  CHECK(f.overslept == std::vector<std::int64_t>{501});
  CHECK(f.turn(10'000).empty());
}

TEST_CASE("what oversleeping puts off is not told") {
  Timetable f;
  f.set_in("a", 1'000);
  f.start();
  f.poll();
  Deadlines<std::string> renewing(
      f.io, f.clock, [&](const std::string& id) { f.told.push_back(id); },
      [&](std::int64_t) { renewing.set("b", renewing.now() + 10); });
  asio::co_spawn(f.io, renewing.run(), [](const std::exception_ptr&) {});
  renewing.set("b", renewing.now() + 1'000);
  f.poll();
  f.told.clear();
  f.fake.turn(5'000);
  renewing.fire();
  CHECK(f.told.empty());
  f.fake.turn(10);
  renewing.fire();
  CHECK(f.told == Ids{"b"});
}

TEST_CASE("a loop that wakes in time, or is busy for a moment, has not overslept") {
  Timetable f;
  f.set_in("a", 1'000);
  f.start();
  f.poll();
  CHECK(f.turn(1'000 + 500) == Ids{"a"});
  CHECK(f.overslept.empty());
}

TEST_CASE("what is set for a time long past does not look like oversleeping") {
  Timetable f;
  f.on_due = [&](const std::string& id) { f.set_in(id, -10'000); };
  f.set_in("a", 0);
  f.start();
  CHECK(f.poll() == Ids{"a"});
  CHECK(f.fire() == Ids{"a"});
  CHECK(f.overslept.empty());
}

TEST_CASE("a request that wakes the loop first does not hide that it overslept") {
  Timetable f;
  f.set_in("a", 1'000);
  f.start();
  f.poll();
  f.fake.turn(5'000);
  f.deadlines.set("b", 0);  // wakes the loop
  CHECK(f.poll() == Ids{"overslept", "b", "a"});
}

TEST_CASE("a loop that was stopped ends, tells nothing more, and does not begin again") {
  Timetable f;
  f.set_in("a", 0);
  f.set_in("b", 0);
  f.on_due = [&](const std::string&) { f.deadlines.stop(); };
  f.start();
  CHECK(f.poll() == Ids{"a"});
  CHECK(f.has_ended);
  f.has_ended = false;
  f.set_in("c", 0);
  f.start();
  CHECK(f.poll().empty());
  CHECK(f.has_ended);
}

TEST_CASE("stopping wakes a loop that sleeps") {
  Timetable f;
  f.start();
  f.poll();
  CHECK(!f.has_ended);
  f.deadlines.stop();
  f.poll();
  CHECK(f.has_ended);
}

namespace {

struct Counted {
  int n = 0;
  static inline int compared = 0;
  std::strong_ordering operator<=>(const Counted& other) const {
    ++compared;
    return n <=> other.n;
  }
  bool operator==(const Counted&) const = default;
};

}  // namespace

TEST_CASE("one that is due among 100 000 costs no look at all") {
  Timetable f;
  std::vector<int> told;
  Deadlines<Counted> many(f.io, f.clock, [&](const Counted& id) { told.push_back(id.n); });
  for (int n = 0; n < 100'000; ++n) many.set({n}, many.now() + 10'000 + n);
  Counted::compared = 0;
  many.set({70'000}, many.now());
  many.fire();
  CHECK(told == std::vector{70'000});
  CHECK(Counted::compared < 100);
}
