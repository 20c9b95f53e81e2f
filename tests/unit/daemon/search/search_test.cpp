#include "daemon/search/search.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/daemon/ledger/ledger_fixture.hpp"

using namespace sessiond;
using testing::LedgerFixture;

namespace {

const std::string key = "agent:main:x:direct:u";

void stop(LedgerFixture& fixture, search::Search& search) {
  bool stopped = false;
  boost::asio::co_spawn(fixture.io(), search.stop(), [&stopped](const std::exception_ptr&) { stopped = true; });
  fixture.run_until([&] { return stopped; });
}

// A ledger with a search of it.
struct Searched {
  explicit Searched(search::SearchOptions options) : search(fixture.ledger(), std::move(options)) {
    REQUIRE(fixture.create(key, "s1").has_value());
  }
  ~Searched() { stop(fixture, search); }
  Searched(const Searched&) = delete;
  Searched& operator=(const Searched&) = delete;

  void say(const std::string& text) { REQUIRE(fixture.append(key, text).has_value()); }
  std::size_t hits(const std::string& words) {
    auto asked = std::make_shared<search::Asked>();
    asked->words = *search::Words::parse(words);
    asked->limit = 1000;
    asked->sees = [](auto, auto, auto) { return true; };
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    return fixture.await(search.find(asked, {}, deadline)).hits.size();
  }
  void finds(const std::string& words, std::size_t wanted) {
    fixture.run_until([&] { return hits(words) == wanted; });
  }

  LedgerFixture fixture{};
  search::Search search;
};

search::SearchOptions at(const testing::TempDir& dir) {
  return {.path = (dir / "search/i").native(), .own_folder = true};
}

}  // namespace

TEST_CASE("with in_memory no file is made, and all is found") {
  const testing::TempDir dir;
  auto options = at(dir);
  options.in_memory = true;
  Searched searched(options);
  searched.say("needle before");
  searched.search.start();
  searched.finds("needle", 1);
  searched.say("needle after");
  searched.finds("needle", 2);
  CHECK_FALSE(std::filesystem::exists(dir / "search"));
  CHECK(searched.search.status().rows == 2);
}

TEST_CASE("an index that exceeds maxBytes is made again without the oldest quarter") {
  const testing::TempDir dir;
  auto options = at(dir);
  options.max_bytes = 400'000;
  Searched searched(options);
  searched.search.start();
  for (int n = 0; n < 40; ++n) {
    std::string text = fmt::format("needle {} ", n);
    for (std::size_t at = 0; at < 9000; ++at)
      text += static_cast<char>('a' + at * (at + static_cast<std::size_t>(n)) % 26);
    searched.say(text);
  }
  searched.fixture.run_until([&] {
    const auto status = searched.search.status();
    return status.rebuilds > 1 && status.whole && status.position >= 40 && status.bytes < options.max_bytes;
  });
  CHECK(searched.hits("needle") < 40);
  CHECK(searched.hits("needle") > 0);
  CHECK(searched.hits("\"needle 39\"") == 1);  // the newest is there
  CHECK(searched.hits("\"needle 0 \"") == 0);
}

TEST_CASE("once it is stopped the source asks nothing") {
  LedgerFixture fixture;
  const std::atomic<bool> stop{true};
  search::Source source(fixture.ledger(), stop);
  const auto agents = source.agents();
  REQUIRE_FALSE(agents.has_value());
  CHECK(agents.error().code == Code::draining);
  CHECK_FALSE(source.is_busy());
}

TEST_CASE("stopped at any moment, the index is kept and goes on") {
  const testing::TempDir dir;
  std::uint64_t made = 0;
  LedgerFixture fixture;
  REQUIRE(fixture.create(key, "s1").has_value());
  constexpr int most = 60;
  for (int n = 0; n < most; ++n) {
    for (int more = 0; more < 20; ++more)
      REQUIRE(fixture.append(key, fmt::format("needle {} {} {}", n, more, std::string(2'000, 'a'))).has_value());
    search::Search search(fixture.ledger(), at(dir));
    search.start();
    const bool last = n + 1 == most;
    const auto enough = static_cast<std::uint64_t>(last ? most * 20 : n);
    if (last || n % 2 == 0) fixture.run_until([&] { return search.status().rows >= enough; });
    stop(fixture, search);
    made += search.status().rebuilds;
    CHECK(search.status().problem.empty());
  }
  CHECK(made == 1);
}

TEST_CASE("of the names in one batch the last is kept, and none of a session that it deletes") {
  const testing::TempDir dir;
  LedgerFixture fixture;
  const auto follow = [&](std::uint64_t rows) {
    search::Search search(fixture.ledger(), at(dir));
    search.start();
    const std::uint64_t head = fixture.ledger().parts().commits.journal().head();
    fixture.run_until([&] { return search.status().whole && search.status().position == head; });
    CHECK(search.status().rows == rows);
    stop(fixture, search);
  };
  REQUIRE(fixture.create(key, "s1").has_value());
  follow(0);
  const auto call = [&](int n) {
    const std::string patch = fmt::format(R"({{"label":"label {0}","name":"name {0}"}})", n);
    REQUIRE(fixture.run(decide::PatchSession{.target = {.key = key}, .patch = patch}).has_value());
  };
  for (int n = 0; n < 5; ++n) call(n);
  follow(2);
  call(5);
  REQUIRE(fixture.run(decide::DeleteSession{.target = {.key = key}}).has_value());
  follow(0);
  REQUIRE(fixture.create(key, "s2").has_value());
  call(6);
  REQUIRE(fixture.run(decide::DeleteSession{.target = {.key = key}}).has_value());
  REQUIRE(fixture.create(key, "s3").has_value());
  follow(0);
}

TEST_CASE("a place that cannot be written is said, and tried again") {
  const testing::TempDir dir;
  Searched searched(at(dir));
  std::filesystem::create_directories(dir / "search/i");
  searched.say("needle");
  searched.search.start();
  searched.fixture.run_until([&] { return !searched.search.status().problem.empty(); });
  CHECK(searched.search.status().problem.contains("search/i"));
  CHECK(searched.hits("needle") == 0);
  searched.say("needle again");  // writes do not notice
  std::filesystem::remove(dir / "search/i");
  searched.finds("needle", 2);
  searched.fixture.run_until([&] { return searched.search.status().problem.empty(); });
}

TEST_CASE("hits before what takes away are left out until the index has it") {
  const testing::TempDir dir;
  Searched searched(at(dir));
  journal::Event event;
  event.envelope.seq = 50;
  event.envelope.agent = "main";
  event.envelope.key = key;
  event.envelope.type = journal::EventType::message_appended;
  searched.search.see(event);
  const search::Hit hit{.agent = "main", .key = key};
  CHECK(searched.search.is_current(hit, 49));
  event.envelope.type = journal::EventType::session_reset;
  searched.search.see(event);
  CHECK_FALSE(searched.search.is_current(hit, 49));
  CHECK(searched.search.is_current(hit, 50));
  CHECK(searched.search.is_current({.agent = "main", .key = "other"}, 1));
  // So many that they are not kept one by one: all older hits are distrusted, none is shown wrongly.
  for (std::uint64_t n = 0; n < 25'000; ++n) {
    event.envelope.seq = 51 + n;
    event.envelope.key = fmt::format("k{}", n);
    searched.search.see(event);
    CHECK_FALSE(searched.search.is_current({.agent = "main", .key = fmt::format("k{}", n)}, 50 + n));
  }
  CHECK_FALSE(searched.search.is_current(hit, 49));
}
