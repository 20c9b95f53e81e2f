// What a stream delivers: everything that its view shows, once, in order, from any place, or a gap that says so.
#include "daemon/stream/frames.hpp"

#include <algorithm>

#include "store/json/raw_json.hpp"
#include "tests/unit/daemon/stream/stream_fixture.hpp"

using namespace sessiond;
using namespace sessiond::stream;
using namespace sessiond::stream_test;

namespace {

constexpr std::array<const char*, 4> keys{"agent:main:slack:direct:u1", "agent:main:slack:group:g1",
                                          "agent:main:irc:direct:u1", ""};
constexpr std::array types{journal::EventType::session_created, journal::EventType::message_appended,
                           journal::EventType::session_updated, journal::EventType::topic_created,
                           journal::EventType::message_appended};

// A history with a bit of everything; what was said at each seq.
std::vector<Said> history(std::size_t n) {
  std::vector<Said> all;
  for (std::size_t i = 0; i < n; ++i) {
    Said said{.type = types[i % types.size()], .agent = i % 7 == 6 ? "other" : "main", .key = keys[i % keys.size()]};
    if (i % 11 == 10) {
      said = {.type = journal::EventType::store_degraded, .agent = ""};
    } else if (said.key.empty()) {
      said.type = journal::EventType::lock_evicted;
    } else if (said.agent == "other") {
      said.key = "agent:other:slack:group:g1";
    }
    if (!said.key.empty()) said.channel = said.key.find(":slack:") != said.key.npos ? "slack" : "irc";
    if (i % 5 == 3 && !said.key.empty()) said.topic = "t" + std::to_string(i % 2);
    if (i % 13 == 0) said.text = std::string(3000, 'y');
    all.push_back(std::move(said));
  }
  return all;
}

void commit_all(Fixture& fixture, const std::vector<Said>& all) {
  for (std::size_t i = 0; i < all.size();) {
    std::size_t end = i + 1;
    while (end < all.size() && end < i + 3 && all[end].agent == all[i].agent) ++end;
    fixture.commit({all.begin() + static_cast<std::ptrdiff_t>(i), all.begin() + static_cast<std::ptrdiff_t>(end)});
    i = end;
  }
}

struct Case {
  Fixture::Query query{};
  StreamScope scope{};
  auth::Principal who = Fixture::admin();
  bool (*shows)(const Said&);  // said without the filter's code
};

const std::vector<Case> cases{
    {.shows = [](const Said&) { return true; }},
    {.query = {{"types", "message.*"}},
     .shows = [](const Said& s) { return s.type == journal::EventType::message_appended; }},
    {.query = {{"types", "lock.evicted,store.*"}},
     .shows =
         [](const Said& s) {
           return s.type == journal::EventType::lock_evicted || s.type == journal::EventType::store_degraded;
         }},
    {.query = {{"channel", "irc"}}, .shows = [](const Said& s) { return s.channel == "irc"; }},
    {.query = {{"keyPrefix", "slack:group:"}},
     .shows = [](const Said& s) { return s.key.find(":slack:group:") != s.key.npos; }},
    {.query = {{"topic", "t1"}}, .shows = [](const Said& s) { return s.topic == "t1"; }},
    {.query = {{"types", "run.*"}}, .shows = [](const Said&) { return false; }},
    {.scope = {.agent = "other"}, .shows = [](const Said& s) { return s.agent == "other"; }},
    {.scope = {.agent = "main", .key = keys[1]}, .shows = [](const Said& s) { return s.key == keys[1]; }},
    {.who = {.id = "t", .agents = {"main"}}, .shows = [](const Said& s) { return s.agent == "main"; }},
    {.who = {.id = "t", .agents = {"main"}, .channel = "slack"},
     .shows = [](const Said& s) { return s.agent == "main" && s.channel == "slack"; }},
    {.who = {.id = "t", .key_prefix = "agent:main:irc:dm:"}, .shows = [](const Said& s) { return s.channel == "irc"; }},
};

std::vector<std::string> expected(const Fixture& fixture, const std::vector<Said>& all, const Case& one,
                                  std::uint64_t after) {
  std::vector<std::string> out;
  for (std::size_t i = after; i < all.size(); ++i) {
    if (one.shows(all[i])) out.push_back(fixture.id(i + 1));
  }
  return out;
}

// From every position under every view: with `part` of the history live, the rest before the stream was opened.
void check_every_position(Fixture& fixture, std::size_t n, std::size_t live) {
  const std::vector<Said> all = history(n + live);
  commit_all(fixture, {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(n)});
  REQUIRE(fixture.head() == n);
  std::vector<std::tuple<std::shared_ptr<Client>, const Case*, std::uint64_t>> open;
  for (const Case& one : cases) {
    for (std::uint64_t after = 0; after <= n; ++after) {
      open.emplace_back(fixture.open(one.query, fixture.id(after), one.scope, one.who), &one, after);
    }
  }
  commit_all(fixture, {all.begin() + static_cast<std::ptrdiff_t>(n), all.end()});
  for (const auto& [client, one, after] : open) {
    CAPTURE(one - cases.data());
    CAPTURE(after);
    fixture.run_to(*client, n + live);
    CHECK(client->ids() == expected(fixture, all, *one, after));
    CHECK(!client->first("stream.gap"));
    CHECK(client->first("stream.hello")->id == fixture.id(after));
    client->hang_up();
  }
}

}  // namespace

TEST_CASE("from every position under every filter, out of memory") {
  Fixture fixture;
  check_every_position(fixture, 40, 25);
}

TEST_CASE("from every position under every filter, on threads of their own") {
  Fixture fixture(config::Config{}, 4);
  check_every_position(fixture, 40, 25);
}

TEST_CASE("from every position under every filter, with a tail that holds next to nothing") {
  config::Config config;
  config.stream.tail_bytes = 700;
  Fixture fixture(config);
  check_every_position(fixture, 40, 25);
}

TEST_CASE("from every position after a restart, when memory holds nothing") {
  Fixture fixture;
  const std::vector<Said> all = history(30);
  commit_all(fixture, all);
  const std::string epoch = fixture.ledger().parts().commits.journal().epoch();
  fixture.restart();
  REQUIRE(fixture.ledger().parts().commits.journal().epoch() == epoch);
  REQUIRE(fixture.streams().tail().oldest() > fixture.head());
  for (std::uint64_t after = 0; after <= all.size(); ++after) {
    const auto client = fixture.open({{"after", fixture.id(after)}});
    fixture.run_to(*client, all.size());
    CHECK(client->ids() == expected(fixture, all, cases[0], after));
  }
}

TEST_CASE("the first things said: retry, then hello with the place the stream starts after") {
  Fixture fixture;
  const auto early = fixture.open({});
  fixture.run_until([&] { return early->first("stream.hello").has_value(); });
  CHECK(early->first("stream.hello")->id == fixture.id(0));

  fixture.commit(history(5));
  const auto client = fixture.open({{"types", "message.*"}}, {}, {.agent = "main"});
  fixture.run_until([&] { return client->first("stream.hello").has_value(); });
  const auto frames = client->frames();
  REQUIRE(frames.size() >= 2);
  CHECK(frames[0] == Frame{.retry = "2000"});
  CHECK(client->text.starts_with("retry: 2000\n\nid: "));
  CHECK(frames[1].id == fixture.id(5));
  CHECK(frames[1].data ==
        R"({"epoch":")" + fixture.ledger().parts().commits.journal().epoch() +
            R"(","head":5,"oldest":1,"version":"0.1.0","filters":{"agent":"main","types":["message.*"]}})");

  fixture.commit({{.type = journal::EventType::message_appended, .key = keys[0], .text = "später"}});
  fixture.run_to(*client, 6);
  const auto said = client->first("message.appended");
  REQUIRE(said);
  CHECK(said->id == fixture.id(6));
  CHECK(said->data == frames::data_of(fixture.streams().tail().batch(6)->frames(6, 6)));
}

TEST_CASE("nobody who opened without a position sees what was before") {
  Fixture fixture;
  const std::vector<Said> all = history(20);
  commit_all(fixture, {all.begin(), all.begin() + 10});
  const auto client = fixture.open({});
  fixture.run_until([&] { return client->first("stream.hello").has_value(); });
  commit_all(fixture, {all.begin() + 10, all.end()});
  fixture.run_to(*client, 20);
  CHECK(client->ids() == expected(fixture, all, cases[0], 10));
}

TEST_CASE("a slow reader of a tiny tail gets everything, in order") {
  config::Config config;
  config.stream.tail_bytes = 2000;
  Fixture fixture(config);
  auto response = fixture.ask({}, {});
  REQUIRE(response);
  const auto slow = fixture.start(std::move(*response));
  fixture.run_until([&] { return slow->first("stream.hello").has_value(); });
  std::vector<Said> all;
  for (int i = 0; i < 1200; ++i) {
    all.push_back({.type = journal::EventType::message_appended, .key = keys[0], .text = std::string(1500, 'z')});
  }
  for (std::size_t i = 0; i < all.size(); i += 100) {
    fixture.commit({all.begin() + static_cast<std::ptrdiff_t>(i), all.begin() + static_cast<std::ptrdiff_t>(i) + 100});
    slow->pause();
    if (i % 300 == 0) slow->read();
  }
  slow->read();
  fixture.run_to(*slow, 1200);
  CHECK(slow->ids() == expected(fixture, all, cases[0], 0));
  CHECK(!slow->first("stream.gap"));
}

TEST_CASE("a batch bigger than any page, and its last event") {
  config::Config config;
  config.stream.tail_bytes = 1;
  Fixture fixture(config);
  std::vector<Said> all;
  for (int i = 0; i < 700; ++i) {
    all.push_back({.type = journal::EventType::message_appended,
                   .key = keys[static_cast<std::size_t>(i % 2)],
                   .text = std::string(2000, 'z')});
  }
  fixture.commit(all);
  for (const std::uint64_t after : {0U, 1U, 350U, 698U, 699U}) {
    const auto client = fixture.open({}, fixture.id(after));
    fixture.run_to(*client, 700);
    CHECK(client->ids() == expected(fixture, all, cases[0], after));
  }
}

TEST_CASE("gaps: another epoch, ahead of head") {
  Fixture fixture;
  commit_all(fixture, history(8));
  const std::string other =
      fixture.ledger().parts().commits.journal().epoch() == "00000000-3" ? "00000001-3" : "00000000-3";
  const std::string ahead = fixture.id(9);
  for (const auto& [asked, reason] : {std::pair(other, "epoch"), std::pair(ahead, "ahead")}) {
    const auto client = fixture.open({{"after", asked}});
    fixture.run_until([&] { return client->first("stream.gap").has_value(); });
    CHECK(client->first("stream.hello")->id == asked);  // whoever is cut off here is told again
    CHECK(client->first("stream.gap")->id == fixture.id(8));
    CHECK(client->first("stream.gap")->data ==
          R"({"from":")" + asked + R"(","to":")" + fixture.id(8) + R"(","reason":")" + reason + R"(","resync":true})");
    CHECK(client->ids().empty());
    client->hang_up();
  }
  const auto client = fixture.open({{"after", ahead}});
  fixture.run_until([&] { return client->first("stream.gap").has_value(); });
  fixture.commit({{.key = keys[0]}});
  fixture.run_to(*client, 9);
  CHECK(client->ids() == std::vector{fixture.id(9)});
}

TEST_CASE("a gap: older than what is kept") {
  config::Config config;
  config.stream.tail_bytes = 1;
  config.journal.segment_bytes = 2000;
  config.journal.max_bytes = 6000;
  Fixture fixture(config);
  const auto slow = fixture.open({}, fixture.id(0));
  fixture.run_until([&] { return slow->first("stream.hello").has_value(); });
  slow->pause();
  for (int i = 0; i < 60; ++i) fixture.commit({{.key = keys[0], .text = std::string(300, 'w')}});
  const auto kept = [&] { return fixture.ledger().parts().commits.journal().oldest(); };
  REQUIRE(fixture.await(fixture.ledger().checkpointer().write_all()));
  fixture.run_until([&] { return kept() > 2; });  // retention has run
  const std::uint64_t oldest = kept();
  REQUIRE(oldest < 60);

  const auto client = fixture.open({}, fixture.id(0));
  const auto edge = fixture.open({}, fixture.id(oldest - 1));
  for (const auto& [reader, from] : {std::pair(client, std::uint64_t{0}), std::pair(edge, oldest - 1)}) {
    fixture.run_to(*reader, 60);
    const auto ids = reader->ids();
    REQUIRE(ids.size() == 60 - oldest + 1);
    CHECK(ids.front() == fixture.id(oldest));
    CHECK(std::ranges::adjacent_find(ids) == ids.end());
    CHECK(reader->first("stream.gap").has_value() == (from == 0));
    CHECK(reader->first("stream.hello")->id == fixture.id(from));
  }
  CHECK(client->first("stream.gap")->id == fixture.id(oldest));
  CHECK(client->first("stream.gap")->data == R"({"from":")" + fixture.id(0) + R"(","to":")" + fixture.id(oldest) +
                                                 R"(","reason":"retention","resync":true})");

  // One that fell behind retention while it was open.
  slow->read();
  fixture.run_to(*slow, 60);
  REQUIRE(slow->first("stream.gap"));
  const auto ids = slow->ids();
  CHECK(ids.back() == fixture.id(60));
  CHECK(std::ranges::find(ids, slow->first("stream.gap")->id) != ids.end());
  CHECK(std::ranges::adjacent_find(ids) == ids.end());
}

TEST_CASE("hello.oldest counts what the tail holds, and that is served without a gap") {
  config::Config config;
  config.journal.segment_bytes = 2000;
  config.journal.max_bytes = 6000;
  Fixture fixture(config);
  for (int i = 0; i < 60; ++i) fixture.commit({{.key = keys[0], .text = std::string(300, 'w')}});
  REQUIRE(fixture.await(fixture.ledger().checkpointer().write_all()));
  fixture.run_until([&] { return fixture.ledger().parts().commits.journal().oldest() > 2; });  // retention has run
  REQUIRE(fixture.streams().tail().oldest() == 1);
  const auto client = fixture.open({}, fixture.id(0));
  fixture.run_to(*client, 60);
  CHECK(json::int_at(client->first("stream.hello")->data, "oldest") == 1);
  CHECK_FALSE(client->first("stream.gap").has_value());
  CHECK(client->ids().size() == 60);
}

TEST_CASE("replay=n: the last n that match, from memory and from disk") {
  for (const std::uint64_t tail_bytes : {1ULL, 1500ULL, 16ULL << 20}) {
    config::Config config;
    config.stream.tail_bytes = tail_bytes;
    Fixture fixture(config);
    const std::vector<Said> all = history(700);
    commit_all(fixture, all);
    std::vector<std::tuple<std::shared_ptr<Client>, const Case*, std::size_t>> open;
    for (const Case& one : cases) {
      for (const std::size_t n : {1U, 2U, 10U, 300U, 1000U}) {
        auto query = one.query;
        query.emplace_back("replay", std::to_string(n));
        open.emplace_back(fixture.open(query, {}, one.scope, one.who), &one, n);
      }
    }
    for (const auto& [client, one, n] : open) {
      CAPTURE(tail_bytes);
      CAPTURE(n);
      const auto matching = expected(fixture, all, *one, 0);
      fixture.run_to(*client, 700);
      CHECK(client->ids() ==
            std::vector(matching.end() - static_cast<std::ptrdiff_t>(std::min(n, matching.size())), matching.end()));
    }
    // A position says it better.
    const auto client = fixture.open({{"replay", "5"}}, fixture.id(699));
    fixture.run_to(*client, 700);
    CHECK(client->ids() == std::vector{fixture.id(700)});
  }
}

TEST_CASE("replay=n of a store without events") {
  Fixture fixture;
  const auto client = fixture.open({{"replay", "10"}});
  fixture.run_until([&] { return client->first("stream.hello").has_value(); });
  CHECK(client->first("stream.hello")->id == fixture.id(0));
  fixture.commit({{.key = keys[0]}});
  fixture.run_to(*client, 1);
  CHECK(client->ids() == std::vector{fixture.id(1)});
}

TEST_CASE("what is malformed is refused before there is a stream") {
  Fixture fixture;
  CHECK(fixture.ask({{"after", "x"}}).error().code == Code::bad_request);
  CHECK(fixture.ask({}, "x").error().code == Code::bad_request);
  CHECK(fixture.ask({{"heartbeatMs", "x"}}).error().code == Code::bad_request);
  CHECK(fixture.ask({{"types", "x"}}).error().code == Code::validation_failed);
  const auto good = fixture.ask({});
  REQUIRE(good);
  CHECK(good->status == 200);
  CHECK(good->content_type == "text/event-stream");
  using Headers = std::vector<std::pair<std::string, std::string>>;
  CHECK(good->headers == Headers{{"Cache-Control", "no-store, no-transform"}, {"X-Accel-Buffering", "no"}});
}
