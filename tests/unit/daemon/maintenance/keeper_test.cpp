#include "daemon/maintenance/keeper.hpp"

#include <doctest/doctest.h>

#include <fmt/format.h>

#include "daemon/decide/commands.hpp"
#include "daemon/maintenance/blobs.hpp"
#include "store/clock.hpp"
#include "store/json/raw_json.hpp"
#include "tests/unit/daemon/ledger/ledger_fixture.hpp"

using namespace sessiond;
using testing::LedgerFixture;

namespace {

constexpr std::int64_t day_ms = 24LL * 3'600'000;
using Keys = std::vector<std::string>;

// A ledger, the events of its keeper, and a keeper that is made anew when the ledger is opened again.
struct Kept {
  LedgerFixture fixture{};
  config::Config config{};
  decide::Streamed streamed{};
  std::unique_ptr<maintenance::Blobs> blobs{};
  std::unique_ptr<maintenance::Keeper> keeper{};
  std::vector<std::string> notices{};  // the data of each retention.notice

  Kept() { begin(); }
  ~Kept() {
    keeper.reset();
    blobs.reset();
  }
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;

  void begin() {
    const auto note = [this](const std::vector<journal::Event>& events) {
      for (const journal::Event& event : events)
        if (event.envelope.type == journal::EventType::retention_notice) notices.emplace_back(event.data);
    };
    fixture.ledger().on_events(note, {});
    blobs = std::make_unique<maintenance::Blobs>(fixture.ledger(), config);
    keeper = std::make_unique<maintenance::Keeper>(
        fixture.ledger(), config, *blobs, [this]() -> asio::awaitable<decide::Streamed> { co_return streamed; });
  }
  void restart() {
    keeper.reset();
    blobs.reset();
    fixture.close();
    fixture.open();
    begin();
  }
  void look() {
    const auto looked = [](maintenance::Keeper& at) -> asio::awaitable<bool> {
      co_await at.look();
      co_return true;
    };
    fixture.await(looked(*keeper));
  }
  config::Config::Maintenance& limits() { return config.session.maintenance; }
  void enforce(std::int64_t notice_ms) {
    limits().mode = config::Config::MaintenanceMode::enforce;
    limits().notice_ms = notice_ms;
  }
  // Sessions agent:main:x:0 … whose last user spoke a day apart, the last of them a day ago.
  void seed(int count) {
    for (int i = 0; i < count; ++i) {
      json::Edit entry;
      entry.put_int("lastInteractionAt", store::unix_ms() - (count - i) * day_ms);
      REQUIRE(fixture.run(decide::PutSession{.target = {.key = key(i)}, .entry = std::move(entry)}));
    }
  }
  static std::string key(int i) { return fmt::format("agent:main:x:{}", i); }
  std::filesystem::path file() const { return fixture.ledger().parts().env.paths.journal_dir() / "retention"; }
  // Sets what was named back by `ms`.
  void age(std::int64_t ms) {
    const std::string text = LedgerFixture::text_of(file());
    const std::string_view main = json::find(text, "main").value();
    std::string sessions;
    for (const json::Member& named : json::members(json::find(main, "sessions").value())) {
      std::vector<std::int64_t> times;
      for (const auto time : json::elements(named.value)) times.push_back(json::as_int(time).value());
      sessions += fmt::format(R"({}"{}":[{},{}])", sessions.empty() ? "" : ",", named.name, times[0] - ms, times[1]);
    }
    keeper.reset();
    LedgerFixture::write_file(
        file(), fmt::format(R"({{"main":{{"told":{},"sessions":{{{}}},"files":{}}}}})",
                            json::int_at(main, "told").value() - ms, sessions, json::find(main, "files").value()));
    begin();
  }
};

}  // namespace

TEST_CASE("without a limit nothing is named, nothing goes and nothing is written") {
  Kept kept;
  kept.seed(3);
  kept.enforce(0);
  kept.look();
  CHECK(kept.notices.empty());
  CHECK(kept.fixture.shown().size() == 3);
  CHECK(!std::filesystem::exists(kept.file()));
}

TEST_CASE("mode warn names once a day and takes nothing") {
  Kept kept;
  kept.seed(3);
  kept.limits().prune_after_ms = 2 * day_ms - day_ms / 2;
  kept.limits().notice_ms = 0;
  kept.look();
  kept.look();
  REQUIRE(kept.notices == Keys{R"({"keys":["agent:main:x:0","agent:main:x:1"]})"});
  kept.limits().prune_after_ms = day_ms / 2;  // reaches one more, which waits for the next notice
  kept.look();
  kept.restart();
  kept.look();
  CHECK(kept.notices.size() == 1);
  kept.age(day_ms);
  kept.look();
  CHECK(kept.notices.size() == 2);
  CHECK(kept.notices.back() == R"({"keys":["agent:main:x:2"]})");
  CHECK(kept.fixture.shown().size() == 3);
}

TEST_CASE("mode enforce takes what was named noticeMs ago, also after a restart") {
  Kept kept;
  kept.seed(3);
  kept.limits().prune_after_ms = 2 * day_ms - day_ms / 2;
  kept.enforce(7 * day_ms);
  kept.look();
  kept.restart();
  kept.look();
  CHECK(kept.fixture.shown().size() == 3);
  kept.age(6 * day_ms);
  kept.look();
  CHECK(kept.fixture.shown().size() == 3);
  kept.age(day_ms);
  kept.look();
  CHECK(kept.fixture.shown() == Keys{"agent:main:x:2"});
  kept.look();
  CHECK(LedgerFixture::text_of(kept.file()).contains(R"("sessions":{})"));
}

TEST_CASE("what is used, pinned, preserved or streamed after the notice stays") {
  Kept kept;
  kept.seed(5);
  kept.limits().prune_after_ms = day_ms / 2;
  kept.enforce(7 * day_ms);
  kept.look();
  REQUIRE(kept.notices.size() == 1);
  REQUIRE(kept.fixture.append(Kept::key(0), "I am back"));
  REQUIRE(kept.fixture.run(decide::PatchSession{.target = {.key = Kept::key(1)}, .patch = R"({"pinnedAt":1})"}));
  kept.limits().preserve = {"agent:main:x:2"};
  kept.streamed = {{"main", Kept::key(3)}};
  kept.age(8 * day_ms);
  kept.look();
  CHECK(kept.fixture.shown() == Keys{Kept::key(0), Kept::key(1), Kept::key(2), Kept::key(3)});
}

TEST_CASE("a session that was used after the notice is named again before it goes") {
  Kept kept;
  kept.seed(2);
  kept.limits().max_entries = 0;  // reached whenever it was used
  kept.enforce(7 * day_ms);
  kept.look();
  REQUIRE(kept.fixture.append(Kept::key(0), "I am back"));
  kept.age(8 * day_ms);
  kept.look();
  CHECK(kept.fixture.shown() == Keys{Kept::key(0)});
  CHECK(kept.notices.back() == R"({"keys":["agent:main:x:0"]})");
}

TEST_CASE("limits that are taken away take their notices with them") {
  Kept kept;
  kept.seed(1);
  kept.limits().max_entries = 0;
  kept.look();
  kept.limits().max_entries.reset();
  kept.look();
  CHECK(LedgerFixture::text_of(kept.file()) == "{}\n");
  kept.limits().max_entries = 0;
  kept.enforce(day_ms);
  kept.look();
  CHECK(kept.notices.size() == 2);
  CHECK(kept.fixture.shown().size() == 1);
}

TEST_CASE("a damaged record of notices begins them anew") {
  for (const char* const text :
       {"", "{", "[]", R"({"main":1})", R"({"main":{"told":"x","sessions":{"a":[1],"b":7}}})"}) {
    Kept kept;
    kept.seed(1);
    kept.keeper.reset();
    LedgerFixture::write_file(kept.file(), text);
    kept.begin();
    kept.limits().max_entries = 0;
    kept.enforce(day_ms);
    kept.look();
    CHECK(kept.notices.size() == 1);
    CHECK(kept.fixture.shown().size() == 1);
  }
}

TEST_CASE("a notice that cannot be stored starts no notice period") {
  Kept kept;
  kept.seed(1);
  kept.limits().max_entries = 0;
  kept.enforce(0);
  kept.fixture.fail_disk();
  kept.look();
  CHECK(!std::filesystem::exists(kept.file()));
  kept.fixture.heal_disk();
}
