#include "daemon/runtime/long_poll.hpp"

#include <doctest/doctest.h>

#include <boost/asio/co_spawn.hpp>
#include <memory>
#include <optional>
#include <string>

#include "tests/unit/daemon/runtime/fake_clock.hpp"

using namespace sessiond;
using runtime::LongPoll;
using runtime::Woken;

namespace {

using Polls = LongPoll<std::string>;
constexpr std::int64_t long_ms = 60'000;

struct WaitingRoom {
  testing::FakeClock fake;
  runtime::Clock clock = fake.clock();
  asio::io_context io{1};
  Polls polls{io, clock};

  // Lets those that wait do what they can do at once.
  void poll() {
    io.restart();
    io.poll();
  }
};

// A request that waits; `woken` is what its last wait ended with.
struct Request {
  Request(WaitingRoom& on, const std::string& topic, std::int64_t wait_ms = long_ms)
      : f(on), place(on.polls, topic, on.fake.steady + wait_ms, [this] { return has_gone; }) {}
  // Nothing: it still waits.
  std::optional<Woken> wait(std::int64_t also = runtime::never) {
    woken.reset();
    asio::co_spawn(f.io, place.wait(also), [this](const std::exception_ptr& thrown, Woken why) {
      CHECK(!thrown);
      woken = why;
    });
    f.poll();
    return woken;
  }

  WaitingRoom& f;
  bool has_gone = false;
  std::optional<Woken> woken;
  Polls::Place place;
};

auto is(const std::string& topic) {
  return [topic](const std::string& of) { return of == topic; };
}

}  // namespace

TEST_CASE("news that comes before the wait is not lost, and is told once") {
  WaitingRoom f;
  Request request(f, "a");
  f.polls.wake(is("a"));
  f.polls.wake(is("a"));
  CHECK(request.wait() == Woken::news);
  CHECK(!request.wait());
  f.polls.drain();
  f.poll();
}

TEST_CASE("news wakes those that wait for it, and no others") {
  WaitingRoom f;
  Request first(f, "a");
  Request other(f, "b");
  Request second(f, "a");
  CHECK(!first.wait());
  CHECK(!other.wait());
  CHECK(!second.wait());
  f.polls.wake(is("a"));
  f.poll();
  CHECK(first.woken == Woken::news);
  CHECK(second.woken == Woken::news);
  CHECK(!other.woken);
  f.polls.drain();
  f.poll();
}

TEST_CASE("the wait ends at the deadline") {
  WaitingRoom f;
  Request request(f, "a", 0);
  f.polls.wake(is("a"));
  CHECK(request.wait() == Woken::deadline);  // the time of whoever hears news all the time ends, too
}

TEST_CASE("whoever has slept until the deadline looks once more") {
  WaitingRoom f;
  Request request(f, "a");
  CHECK(!request.wait());
  f.fake.turn(long_ms);
  request.place.tell();
  f.poll();
  CHECK(request.woken == Woken::news);
  CHECK(request.wait() == Woken::deadline);
}

TEST_CASE("the timer wakes whoever waits when the clock says that it is time") {
  WaitingRoom f;
  Request request(f, "a", 1);
  CHECK(!request.wait());
  f.fake.turn(1);
  f.io.restart();
  while (!request.woken) f.io.run_one();
  CHECK(request.woken == Woken::news);
  CHECK(request.wait() == Woken::deadline);
}

TEST_CASE("draining ends the wait after one more look") {
  WaitingRoom f;
  Request request(f, "a");
  CHECK(!request.wait());
  f.polls.drain();
  f.poll();
  CHECK(request.woken == Woken::news);
  CHECK(request.wait() == Woken::draining);
  Request later(f, "a");
  CHECK(later.wait() == Woken::draining);
}

TEST_CASE("the wait of a client that has gone ends, whatever else there is") {
  WaitingRoom f;
  Request request(f, "a", 0);
  request.has_gone = true;
  request.place.tell();
  f.polls.drain();
  CHECK(request.place.is_gone());
  CHECK(request.wait() == Woken::gone);
}

TEST_CASE("news wakes a client that has gone meanwhile") {
  WaitingRoom f;
  Request request(f, "a");
  CHECK(!request.wait());
  request.has_gone = true;
  f.polls.wake(is("a"));
  f.poll();
  CHECK(request.woken == Woken::gone);
}

TEST_CASE("a look at another time, in any case") {
  WaitingRoom f;
  Request request(f, "a");
  CHECK(request.wait(f.fake.steady) == Woken::news);
  CHECK(!request.wait(f.fake.steady + 1));
  f.fake.turn(1);
  f.io.restart();
  while (!request.woken) f.io.run_one();
  CHECK(request.woken == Woken::news);
  CHECK(!request.wait());
  f.polls.drain();
  f.poll();
}

TEST_CASE("a place is in the list as long as it lives, the longest first") {
  WaitingRoom f;
  auto first = std::make_unique<Polls::Place>(f.polls, "a", 0, nullptr);
  const Polls::Place second(f.polls, "b", 0, nullptr);
  REQUIRE(f.polls.places().size() == 2);
  CHECK(f.polls.places().front() == first.get());
  f.polls.wake(is("a"));
  first.reset();
  REQUIRE(f.polls.places().size() == 1);
  CHECK(f.polls.places().front() == &second);
}

TEST_CASE("a place may go when it was woken and before it has gone on") {
  WaitingRoom f;
  bool has_ended = false;
  auto wait = [](Polls& polls) -> asio::awaitable<void> {
    Polls::Place place(polls, "a", runtime::never, nullptr);
    co_await place.wait();
  };
  {
    asio::io_context io{1};
    Polls polls(io, f.clock);
    asio::co_spawn(io, wait(polls), [&](const std::exception_ptr&) { has_ended = true; });
    io.poll();
    REQUIRE(polls.places().size() == 1);
    polls.wake(is("a"));
  }  // the loop ends before it goes on
  CHECK(!has_ended);
}

TEST_CASE("a place may outlive what it waits for") {
  WaitingRoom f;
  auto polls = std::make_unique<Polls>(f.io, f.clock);
  Polls::Place place(*polls, "a", runtime::never, nullptr);
  std::optional<Woken> woken;
  asio::co_spawn(f.io, place.wait(), [&](const std::exception_ptr&, Woken why) { woken = why; });
  f.poll();
  polls.reset();
  place.tell();
  f.poll();
  CHECK(woken == Woken::news);
  asio::co_spawn(f.io, place.wait(), [&](const std::exception_ptr&, Woken why) { woken = why; });
  f.poll();
  CHECK(woken == Woken::draining);
}
