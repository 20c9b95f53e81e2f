#include "store/journal/age_clock.hpp"

#include <doctest/doctest.h>

#include <deque>
#include <string>

#include "store/files.hpp"
#include "tests/unit/store/journal/journal_fixture.hpp"

namespace sessiond::journal {
namespace {

using journal_test::TempDir;
using journal_test::write_file;

constexpr std::int64_t hour = 3'600'000;
constexpr std::int64_t year = 365 * 24 * hour;
constexpr std::int64_t begun = 1'795'298'400'000;

struct World {
  TempDir dir{};
  std::deque<std::string> boots{"a"};  // the clock views their text
  AgeClock::Machine machine{.boot = boots.back(), .since_boot_ms = 10 * hour, .wall_ms = begun};

  std::unique_ptr<AgeClock> open(std::int64_t newest = 0, std::uint64_t head = 1000) {
    return AgeClock::open(dir.path() / "clock", newest, head, [this] { return machine; });
  }
  void pass(std::int64_t ms) {
    machine.since_boot_ms += ms;
    machine.wall_ms += ms;
  }
  void reboot(std::int64_t off_ms) {
    boots.push_back(boots.back() + "b");
    machine = {.boot = boots.back(), .since_boot_ms = 0, .wall_ms = machine.wall_ms + off_ms};
  }
};

TEST_CASE_FIXTURE(World, "the clock of ages goes with the machine, however the wall clock is set") {
  auto clock = open();
  CHECK(clock->now() == begun);
  pass(hour);
  CHECK(clock->now() == begun + hour);
  machine.wall_ms += 30 * hour;
  CHECK(clock->now() == begun + hour);
  machine.wall_ms = 0;
  CHECK(clock->now() == begun + hour);

  SUBCASE("over a restart of the daemon, whatever the wall clock says then") {
    for (const std::int64_t wall : {std::int64_t{0}, begun + hour, begun + 30 * hour, begun + 50 * year}) {
      machine.wall_ms = wall;
      clock = open();
      CHECK(clock->now() == begun + hour);
    }
    machine.since_boot_ms += 2 * hour;
    CHECK(open()->now() == begun + 3 * hour);
  }
  SUBCASE("over a boot of the machine: how long it was off is not known") {
    reboot(2000 * hour);
    pass(hour);
    CHECK(open()->now() == begun + hour);  // where it stood when it was written, and since the boot
    machine.wall_ms = 0;
    CHECK(open(begun + 90'000)->now() == begun + hour);
    CHECK(open(begun + 2 * hour)->now() == begun + 2 * hour);  // never before what was told
  }
}

TEST_CASE_FIXTURE(World, "without its file the clock of ages begins at what is known, never far behind it") {
  CHECK(open(begun - hour)->now() == begun);
  for (const char* text : {"", "{", "[]", "{\"time\":-1,\"sinceBoot\":0}", "{\"time\":1e300,\"sinceBoot\":0}",
                           "{\"time\":9223372036854775807,\"sinceBoot\":0}"}) {
    write_file(dir.path() / "clock", text);
    CHECK(open(begun - hour)->now() == begun);
  }
  const auto without = [&](std::int64_t wall, std::int64_t newest) {
    std::filesystem::remove(dir.path() / "clock");
    machine.wall_ms = wall;
    return open(newest)->now();
  };
  CHECK(without(0, begun) == begun);                         // boot at 1970
  CHECK(without(begun + year, begun) == begun + 10 * hour);  // not more than the machine runs
  CHECK(without(0, 0) == 0);
}

TEST_CASE_FIXTURE(World, "events grow old by the clock of ages") {
  auto clock = open();
  CHECK(clock->older_than(64 * hour, 10) == 0);
  machine.wall_ms += 100 * hour;
  CHECK(clock->older_than(64 * hour, 20) == 0);
  machine.wall_ms -= 100 * hour;
  for (std::uint64_t head = 20; head < 84; ++head) {
    pass(hour);
    clock->older_than(64 * hour, head);
  }
  CHECK(clock->older_than(64 * hour, 90) == 10);
  pass(hour);
  CHECK(clock->older_than(64 * hour, 90) == 20);
  CHECK(open()->older_than(64 * hour, 90) == 20);
  CHECK(open(0, 5)->older_than(64 * hour, 5) == 0);  // what it knew of is no longer there
  CHECK(store::read_file(dir.path() / "clock")->size() < 8000);
}

}  // namespace
}  // namespace sessiond::journal
