// How long a stream lives and what it says meanwhile: keep-alives, tokens that lose their right, shutdown, clients that
// hang up.
#include "daemon/stream/frames.hpp"
#include "store/json/raw_json.hpp"
#include "tests/unit/daemon/stream/stream_fixture.hpp"

using namespace sessiond;
using namespace sessiond::stream_test;

namespace {

const std::string key = "agent:main:slack:direct:u1";

std::size_t count_pings(const Client& client) {
  return static_cast<std::size_t>(
      std::ranges::count_if(client.frames(), [](const Frame& frame) { return frame.comment == "ping"; }));
}

}  // namespace

TEST_CASE("silence: pings, and a bare id only when events were filtered away") {
  Fixture fixture;
  fixture.commit({{.key = key}});
  const auto client = fixture.open({{"types", "message.*"}});
  fixture.run_until([&] { return count_pings(*client) >= 2; });
  auto frames = client->frames();
  for (std::size_t i = 2; i < frames.size(); ++i) CHECK(frames[i] == Frame{.comment = "ping"});

  fixture.commit({{.key = key}, {.key = key}});
  fixture.run_to(*client, 3);
  frames = client->frames();
  CHECK(frames.back() == Frame{.id = fixture.id(3)});
  CHECK(frames[frames.size() - 2] == Frame{.comment = "ping"});
  const std::size_t pings = count_pings(*client);
  fixture.run_until([&] { return count_pings(*client) >= pings + 2; });
  CHECK(std::ranges::count_if(client->frames(), [](const Frame& f) { return !f.id.empty() && f.type.empty(); }) == 1);

  // Where the bare id was taken up again nothing is missing.
  fixture.commit({{.type = journal::EventType::message_appended, .key = key}});
  const auto again = fixture.open({{"types", "message.*"}}, fixture.id(3));
  fixture.run_to(*again, 4);
  fixture.run_to(*client, 4);
  CHECK(again->ids() == std::vector{fixture.id(4)});
  CHECK(client->ids() == again->ids());
}

TEST_CASE("ping=event") {
  Fixture fixture;
  const auto client = fixture.open({{"ping", "event"}});
  fixture.run_until([&] { return client->first("ping").has_value(); });
  CHECK(*client->first("ping") == Frame{.type = "ping", .data = "{}"});
  CHECK(count_pings(*client) == 0);
}

TEST_CASE("a revoked token: its stream ends and shows nothing of what came since") {
  Fixture fixture;
  const auto client = fixture.open({});
  const auto other = fixture.open({}, {}, {}, {.id = "b", .role = auth::Role::viewer});
  fixture.run_until([&] { return other->first("stream.hello").has_value(); });
  fixture.again = [](const auth::Principal& who) -> Result<auth::Principal> {
    if (who.id == "a") return fail(Code::unauthorized, "revoked");
    return who;
  };
  ++fixture.generation;
  fixture.commit({{.type = journal::EventType::token_revoked, .agent = ""}});
  fixture.run_until([&] { return client->ended; });
  CHECK(client->ids().empty());
  CHECK(!client->first("stream.bye"));
  fixture.run_to(*other, 1);
  CHECK(!other->ended);
}

TEST_CASE("an expired token: the generation says nothing, the stream ends all the same") {
  Fixture fixture;
  const auto client = fixture.open({{"heartbeatMs", "60000"}});
  fixture.run_until([&] { return client->first("stream.hello").has_value(); });
  fixture.again = [](const auth::Principal&) -> Result<auth::Principal> { return fail(Code::unauthorized, "expired"); };
  fixture.run_until([&] { return client->ended; });
}

TEST_CASE("a token with another scope: the stream ends, so that the next has the new one") {
  for (const auth::Principal& now : {auth::Principal{.id = "a", .role = auth::Role::viewer},
                                     auth::Principal{.id = "a", .role = auth::Role::admin, .agents = {"main"}},
                                     auth::Principal{.id = "a", .role = auth::Role::admin, .key_prefix = "x"},
                                     auth::Principal{.id = "a", .role = auth::Role::admin, .channel = "x"}}) {
    Fixture fixture;
    const auto client = fixture.open({});
    fixture.run_until([&] { return client->first("stream.hello").has_value(); });
    fixture.again = [&now](const auth::Principal&) -> Result<auth::Principal> { return now; };
    ++fixture.generation;
    fixture.commit({{.key = key}});
    fixture.run_until([&] { return client->ended; });
    CHECK(client->ids().empty());
  }
}

TEST_CASE("other tokens changing ends nothing") {
  Fixture fixture;
  const auto client = fixture.open({});
  fixture.run_until([&] { return client->first("stream.hello").has_value(); });
  ++fixture.generation;
  fixture.commit({{.type = journal::EventType::token_created, .agent = ""}});
  fixture.run_to(*client, 1);
  CHECK(fixture.times_asked > 0);
  CHECK(!client->ended);
}

TEST_CASE("shutdown: bye, and the end, also for who comes now") {
  Fixture fixture;
  const auto client = fixture.open({{"types", "message.*"}, {"heartbeatMs", "60000"}});
  fixture.run_until([&] { return client->first("stream.hello").has_value(); });
  const auto witness = fixture.open({});  // woken after the other
  fixture.run_until([&] { return witness->first("stream.hello").has_value(); });
  fixture.commit({{.key = key}});
  fixture.run_to(*witness, 1);
  fixture.streams().drain();
  fixture.run_until([&] { return client->ended; });
  const auto frames = client->frames();
  CHECK(frames.back() == Frame{.type = "stream.bye", .data = R"({"retryMs":2000})"});
  CHECK(client->last_id() == fixture.id(1));  // filtered away, yet behind it

  const auto late = fixture.open({}, fixture.id(0));
  fixture.run_until([&] { return late->ended; });
  CHECK(late->first("stream.hello"));
  CHECK(late->first("stream.bye"));
  CHECK(late->last_id() == fixture.id(0));
}

TEST_CASE("a client that hangs up: waiting, stalled, and at once") {
  Fixture fixture;
  const auto nobody = [&] { return fixture.await(fixture.streams().list()).empty(); };
  const auto waiting = fixture.open({{"heartbeatMs", "60000"}});
  fixture.run_until([&] { return waiting->first("stream.hello").has_value(); });
  waiting->hang_up();
  fixture.run_until(nobody);

  const auto stalled = fixture.open({});
  fixture.run_until([&] { return stalled->first("stream.hello").has_value(); });
  stalled->pause();
  fixture.commit({{.key = key, .text = std::string(1 << 20, 'x')}});
  fixture.run_until_state("blocked");
  stalled->hang_up();
  fixture.run_until(nobody);

  const auto gone = fixture.start(std::move(*fixture.ask({{"replay", "10"}})), false);
  gone->hang_up();
  fixture.run_until(nobody);
  fixture.commit({{.key = key}});  // and nobody wakes who is gone
}

TEST_CASE("hundreds of subscribers, all told of everything") {
  Fixture fixture;
  std::vector<std::shared_ptr<Client>> clients;
  for (int i = 0; i < 300; ++i) clients.push_back(fixture.open({{"heartbeatMs", "60000"}}, fixture.id(0)));
  for (int i = 0; i < 50; ++i) {
    fixture.commit({{.key = key}});
    if (i == 20) {
      for (std::size_t hung = 0; hung < clients.size(); hung += 3) clients[hung]->hang_up();
    }
  }
  for (std::size_t i = 0; i < clients.size(); ++i) {
    if (i % 3 == 0) continue;
    fixture.run_to(*clients[i], 50);
    CHECK(clients[i]->ids().size() == 50);
  }
}

TEST_CASE("pings between the parts of a round, and sockets that are full at any moment") {
  Fixture fixture;
  std::vector<std::shared_ptr<Client>> clients;
  for (int i = 0; i < 700; ++i) clients.push_back(fixture.open({{"heartbeatMs", "100"}}, fixture.id(0)));
  for (int i = 0; i < 60; ++i) {
    fixture.commit({{.key = key, .text = std::string(static_cast<std::size_t>(37 * i % 3000), 'x')}});
    for (std::size_t one = static_cast<std::size_t>(i % 3); one < clients.size(); one += 3) {
      if (i % 2 == 0) clients[one]->pause();
      if (i % 2 == 1) clients[one]->read();
    }
  }
  for (const auto& client : clients) client->read();
  std::vector<std::string> all;
  for (std::uint64_t seq = 1; seq <= 60; ++seq) all.push_back(fixture.id(seq));
  for (const auto& client : clients) {
    fixture.run_to(*client, 60);
    CHECK(client->ids() == all);
  }
}

TEST_CASE("who takes nothing is closed, costs the others nothing, and has it all when it comes back") {
  config::Config config;
  config.stream.stall_timeout_ms = 1000;
  config.stream.tail_bytes = 100'000;
  for (const std::size_t threads : {1U, 3U}) {
    Fixture fixture(config, threads);
    const auto stalled = fixture.open({});
    const auto other = fixture.open({});
    fixture.run_until([&] { return stalled->first("stream.hello") && other->first("stream.hello"); });
    stalled->pause();
    for (int i = 0; i < 40; ++i) fixture.commit({{.key = key, .text = std::string(20'000, 'x')}});
    fixture.run_to(*other, 40);
    fixture.run_until([&] { return fixture.await(fixture.streams().list()).size() == 1; });
    CHECK(fixture.streams().counters().stalled == 1);
    stalled->read();
    fixture.run_until([&] { return stalled->ended; });
    const auto ids = stalled->ids();
    REQUIRE(ids.size() < 40);
    const auto again = fixture.open({}, ids.empty() ? fixture.id(0) : ids.back());
    fixture.run_to(*again, 40);
    auto all = ids;
    std::ranges::copy(again->ids(), std::back_inserter(all));
    CHECK(all == other->ids());
  }
}

TEST_CASE("a blocked reader goes on where it was, in the tail and behind it") {
  for (const std::uint64_t tail_bytes : {100'000U, 100'000'000U}) {
    config::Config config;
    config.stream.tail_bytes = tail_bytes;
    Fixture fixture(config);
    const auto client = fixture.open({});
    fixture.run_until([&] { return client->first("stream.hello").has_value(); });
    for (int round = 1; round <= 5; ++round) {
      client->pause();
      for (int i = 0; i < 40; ++i) fixture.commit({{.key = key, .text = std::string(20'000, 'x')}});
      fixture.run_until_state("blocked");
      client->read();
      fixture.run_to(*client, static_cast<std::uint64_t>(round) * 40);
    }
    CHECK(client->ids().size() == 200);
  }
}

TEST_CASE("an operator closes one stream") {
  Fixture fixture(config::Config{}, 2);
  const auto one = fixture.open({});
  const auto two = fixture.open({});
  fixture.run_until([&] { return one->first("stream.hello") && two->first("stream.hello"); });
  const auto all = fixture.await(fixture.streams().list());
  REQUIRE(all.size() == 2);
  CHECK(fixture.await(fixture.streams().close(all[0].id)));
  CHECK(!fixture.await(fixture.streams().close(all[0].id)));
  fixture.run_until([&] { return one->ended || two->ended; });
  CHECK(one->ended != two->ended);
}

TEST_CASE("clients that read nothing share the bytes of a long event") {
  Fixture fixture;
  std::vector<std::shared_ptr<Client>> slow;
  for (int i = 0; i < 20; ++i) {
    auto response = fixture.ask({}, {});
    REQUIRE(response);
    slow.push_back(fixture.start(std::move(*response), false));
  }
  const auto are_all = [&](std::string_view state) {
    const auto all = fixture.await(fixture.streams().list());
    return all.size() == slow.size() && std::ranges::all_of(all, [&](const auto& one) { return one.state == state; });
  };
  fixture.run_until([&] { return are_all("live"); });  // a stream begins behind the events before it
  fixture.commit({{.type = journal::EventType::message_appended,
                   .key = "agent:main:slack:direct:u1",
                   .text = std::string(2 << 20, 'z')}});
  fixture.run_until([&] { return are_all("blocked"); });
  CHECK(fixture.streams().tail().batch(1).use_count() > 20);
  slow.front()->read();
  fixture.run_to(*slow.front(), 1);
  CHECK(slow.front()->first("message.appended")->data ==
        sessiond::frames::data_of(fixture.streams().tail().batch(1)->frames(1, 1)));
}

TEST_CASE("a long event out of the journal reaches clients that read late") {
  config::Config config;
  config.stream.tail_bytes = 700;
  Fixture fixture(config);
  for (int i = 0; i < 2; ++i)
    fixture.commit({{.type = journal::EventType::message_appended,
                     .key = "agent:main:slack:direct:u1",
                     .text = std::string(300'000, 'z')}});
  fixture.commit({{.type = journal::EventType::message_appended, .key = "agent:main:slack:direct:u1"}});
  std::vector<std::shared_ptr<Client>> slow;
  for (int i = 0; i < 2; ++i) {
    auto response = fixture.ask({{"after", fixture.id(0)}}, {});
    REQUIRE(response);
    slow.push_back(fixture.start(std::move(*response), false));
  }
  for (const auto& client : slow) client->read();
  for (const auto& client : slow) {
    fixture.run_to(*client, 3);
    CHECK(client->text.size() > 600'000);
  }
}
