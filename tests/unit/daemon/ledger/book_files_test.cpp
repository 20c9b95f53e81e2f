#include "daemon/ledger/book_files.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "daemon/decide/delivery_commands.hpp"
#include "daemon/decide/run_commands.hpp"
#include "store/files.hpp"
#include "store/json/crc.hpp"
#include "tests/unit/daemon/decide/book_on_paper.hpp"
#include "tests/unit/daemon/decide/world.hpp"
#include "tests/unit/temp_dir.hpp"

using namespace sessiond;
using namespace sessiond::ledger;
using sessiond::testing::TempDir;

namespace {

constexpr const char* book_key = "agent:main:slack:direct:u1";

// It has events from `first` on, and none of them is in it.
class NoEvents : public journal::Journal {
 public:
  explicit NoEvents(std::uint64_t first = 1) : first_(first) {}
  void append(std::vector<journal::Commit> /*commits*/) override {}
  Result<void> resume() override { return {}; }
  void tail(OnBatch /*on_batch*/) override {}
  Result<journal::JournalPage> read(std::uint64_t /*from*/, std::size_t /*max_bytes*/) const override {
    return fail(Code::internal, "it has no events");
  }
  Result<journal::EventsRead> each_event(std::uint64_t /*from*/, std::size_t /*max_bytes*/,
                                         const OnEvent& /*take*/) const override {
    return fail(Code::internal, "it has no events");
  }
  std::uint64_t head() const override { return first_ - 1; }
  std::uint64_t oldest() const override { return first_; }
  const std::string& epoch() const override { return epoch_; }
  std::uint64_t bytes_after(std::uint64_t /*seq*/) const override { return 0; }
  void release(std::uint64_t /*seq*/, std::uint64_t /*old*/) override {}

 private:
  std::uint64_t first_;
  std::string epoch_ = "0badcafe";
};

// The books of agent main, in a state directory of their own.
struct BooksOfMain {
  TempDir dir{};
  Paths paths{dir.path(), "agents/{agentId}/sessions/sessions.json"};
  BookLogs logs{paths, "main"};
  decide::AgentState state{"main"};
  std::vector<std::string> repairs{};

  void read(std::optional<std::uint64_t> known = {}, std::uint64_t oldest = 1) {
    logs = BookLogs(paths, "main");
    state = decide::AgentState("main");
    repairs.clear();
    const auto done = read_books(state, logs, paths, NoEvents(oldest), {.runs = known, .outbox = known}, repairs);
    REQUIRE_MESSAGE(done, done.error().detail);
  }
  // Writes what has changed, with `meanwhile` after each record.
  template <class Meanwhile = decltype([] {})>
  void write(decide::AgentState& of, Meanwhile meanwhile = {}) {
    ChangedBooks books;
    const auto take = [](auto& book, std::optional<decide::BookChanges>& changes) {
      if (!book.unwritten().is_dirty()) return true;
      if (!changes) changes.emplace();
      return book.take_changes(*changes, {.records = 1});
    };
    while (!take(of.runs, books.runs) || !take(of.deliveries, books.deliveries)) meanwhile();
    const auto done = write_books(paths, "main", logs, books);
    REQUIRE_MESSAGE(done, done.error().detail);
  }
  void write_log(std::uint64_t end) {
    for (BookLog* log : {&logs.runs, &logs.deliveries})
      REQUIRE(log->write({.is_whole = true, .records = {}, .ending = fmt::format(R"({{"end":{},"open":0}})", end)}));
  }
  // As an earlier version writes them.
  void write_before(std::uint64_t seq) {
    for (const std::string folder : {"runs", "outbox"})
      std::filesystem::create_directories(paths.journal_dir() / folder);
    REQUIRE(store::replace_file(file_before(runs_file(paths, "main")),
                                json::with_crc(fmt::format(R"({{"seq":{},"fenceFloor":2,"sessions":{{}}}})", seq))));
    REQUIRE(
        store::replace_file(file_before(outbox_file(paths, "main")),
                            json::with_crc(fmt::format(R"({{"seq":{},"unsent":[],"failed":[],"ended":[]}})", seq))));
  }
  bool has_before() const {
    return store::stat_of(file_before(runs_file(paths, "main"))).has_value() ||
           store::stat_of(file_before(outbox_file(paths, "main"))).has_value();
  }
  bool is_dirty() const { return state.runs.unwritten().is_dirty() && state.deliveries.unwritten().is_dirty(); }
  void check_seq(std::uint64_t seq) const {
    CHECK(state.runs.seq() == seq);
    CHECK(state.deliveries.seq() == seq);
  }
  std::string bytes() const {
    return store::read_file(runs_file(paths, "main")).value() + store::read_file(outbox_file(paths, "main")).value();
  }
};

transcripts::NewEntry entry_with(const char* role, const std::string& text) {
  transcripts::NewEntry entry{.type = "message", .role = role, .stamp = true};
  entry.body = R"({"role":")" + std::string(role) + R"(","content":)" + json::quote(text) + "}";
  return entry;
}

struct WorldOfBooks : decide::World {
  WorldOfBooks() {
    CHECK(kept.renew({.token = "t"}, 1'000));
    adoptions = &kept;
    make();
  }
  decide::Adoptions kept{};

  void make() {
    run(decide::CreateSession{
        .key = book_key,
        .session_id = "s" + std::to_string(next_seq),
        .entry = decide::edit_of(R"({"deliveryContext":{"channel":"slack","to":"u1"},"lastChannel":"slack"})")});
  }
  void queue(const std::string& text) {
    run(decide::StartRun{.target = {.key = book_key}, .input = {entry_with("user", text)}, .queue_only = true});
  }
  void start(const std::string& text = "go") {
    run(decide::StartRun{.target = {.key = book_key}, .input = {entry_with("user", text)}});
  }
  void say(const std::string& text) {
    run(decide::RunEvents{.target = {.key = book_key},
                          .hold = hold(),
                          .n = 1,
                          .events = {{"text.delta", R"({"text":)" + json::quote(text) + "}"}},
                          .store_text = true});
  }
  void finish(const std::string& text) {
    run(decide::FinishRun{.target = {.key = book_key}, .hold = hold(), .entries = {entry_with("assistant", text)}});
  }
  decide::RunHold hold() const {
    const decide::SessionRuns& runs = *state.runs.find(book_key);
    return {.run_id = runs.active->id, .fence = runs.fence};
  }
  void send(const std::string& text) { run(decide::Outbound{.target = {.key = book_key}, .text = text}); }
  // All deliveries go out.
  void send_all() {
    const decide::SeesDelivery all = [](const decide::AgentState&, const decide::Delivery&) { return true; };
    for (;;) {
      const decide::Decision done =
          run(decide::ClaimDeliveries{.wants = all, .waits = [](const std::string&) { return false; }, .limit = 100});
      const auto claimed = json::elements(done.body);
      std::vector<std::string> ids;
      for (const std::string_view each : claimed) ids.push_back(json::string_at(each, "deliveryId").value_or(""));
      if (ids.empty()) return;
      for (const std::string& id : ids) run(decide::AckDelivery{.id = id, .sees = all});
    }
  }
};

std::string text_of_books(const decide::AgentState& state) {
  return decide::text_of(state.runs) + "\n" + decide::text_of(state.deliveries);
}

}  // namespace

TEST_CASE("books that are written whole while the agent works are in their logs as they are at the end") {
  for (int at = 0; at < 12; ++at) {  // after which record the session is deleted
    for (const bool purge : {false, true}) {
      CAPTURE(at);
      CAPTURE(purge);
      WorldOfBooks world;
      for (int n = 0; n < 2; ++n) {
        world.start();
        world.finish("the first secret");
      }
      world.send("another secret");
      world.send_all();
      world.send("it waits to go out");
      world.start();
      world.queue("waits");
      BooksOfMain books;
      int taken = 0;
      books.write(world.state, [&] {
        if (taken++ != at) return;
        world.run(decide::DeleteSession{.target = {.key = book_key}, .purge = purge});
        world.make();
        world.start("again");
      });
      books.read();
      CHECK(text_of_books(books.state) == text_of_books(world.state));
      CHECK(books.repairs.empty());
    }
  }
}

TEST_CASE(
    "text leaves the logs with the next write when its message is deleted or edited, also where it was long ago") {
  using journal::EventType;
  for (const EventType type : {EventType::message_deleted, EventType::message_edited}) {
    WorldOfBooks world;
    BooksOfMain books;
    books.write(world.state);
    world.start();
    world.say("it streamed a secret");
    books.write(world.state);
    world.finish("short");
    world.send("it sent a secret");
    books.write(world.state);
    world.send_all();
    books.write(world.state);
    for (const std::string_view said : {"streamed a secret", "sent a secret"}) {
      CHECK(books.bytes().contains(said));
      CHECK_FALSE(text_of_books(world.state).contains(said));
    }
    const std::string id = world.session(book_key).session_id;
    const auto event = decide::event_of(world.next_seq, world.now, type, book_key,
                                        R"({"target":{"id":"gone","sessionId":")" + id + R"("},"text":"new"})", id);
    decide::apply(world.state, event, decide::Replay::no);
    books.write(world.state);
    for (const std::string_view said : {"streamed a secret", "sent a secret"})
      CHECK_FALSE(books.bytes().contains(said));
    books.read();
    CHECK(text_of_books(books.state) == text_of_books(world.state));
  }
}

TEST_CASE("what a session has said leaves the log of runs when it is deleted, purged or not") {
  for (const bool purge : {false, true}) {
    WorldOfBooks world;
    BooksOfMain books;
    world.send("and a delivery");
    world.start();
    world.finish("it said a secret");
    books.write(world.state);
    CHECK(books.bytes().contains("said a secret"));
    world.run(decide::DeleteSession{.target = {.key = book_key}, .purge = purge});
    books.write(world.state);
    CHECK_FALSE(books.bytes().contains("said a secret"));
  }
}

TEST_CASE("a log that a kill kept from forgetting makes its book dirty") {
  BooksOfMain books;
  books.write_log(3);
  books.read(3);
  CHECK_FALSE(books.is_dirty());
  for (BookLog* log : {&books.logs.runs, &books.logs.deliveries})
    REQUIRE(log->write({.records = {}, .ending = R"({"end":5,"open":0,"forgets":true})"}));
  books.read(5);
  CHECK(books.is_dirty());
  books.write(books.state);
  CHECK_FALSE(books.bytes().contains("forgets"));
  books.read(5);
  CHECK_FALSE(books.is_dirty());
}

TEST_CASE("of a log and the file of an earlier version the later one counts") {
  BooksOfMain books;
  books.write_log(5);
  books.write_before(9);  // after a downgrade
  books.read();
  books.check_seq(9);
  CHECK(books.is_dirty());
  CHECK(books.has_before());
  books.write(books.state);
  CHECK_FALSE(books.has_before());
  books.read(9);
  books.check_seq(9);
  CHECK_FALSE(books.is_dirty());
  CHECK(books.repairs.empty());
  books.write_before(7);  // a kill has left it
  books.read(9);
  books.check_seq(9);
  CHECK_FALSE(books.has_before());
  CHECK(books.repairs.empty());
}

TEST_CASE("the file of an earlier version counts beside a damaged log, if the journal goes on where it ends") {
  struct Case {
    std::uint64_t known, oldest, wanted;
  };
  for (const auto& [known, oldest, wanted] : {Case{0, 1, 9}, Case{9, 50, 9}, Case{12, 10, 9}, Case{12, 11, 0}}) {
    CAPTURE(known);
    CAPTURE(oldest);
    BooksOfMain books;
    books.write_log(12);
    for (const auto& file : {runs_file(books.paths, "main"), outbox_file(books.paths, "main")})
      std::filesystem::resize_file(file, 30);
    books.write_before(9);
    books.read(known, oldest);
    books.check_seq(wanted);
    CHECK(books.is_dirty());
    CHECK(books.has_before());
    CHECK(books.repairs.size() == 2);
    books.write(books.state);
    CHECK_FALSE(books.has_before());
    books.read();
    books.check_seq(wanted);
  }
}

TEST_CASE("a log that ends before what CHECKPOINT knows may have something open, and so may a later file beside it") {
  BooksOfMain books;
  const auto may_have = [&books](std::uint64_t known) {
    return may_have_open_runs(runs_file(books.paths, "main"), known);
  };
  books.write_log(5);
  CHECK_FALSE(may_have(5));
  CHECK(may_have(6));
  CHECK_FALSE(may_have(0));
  const auto before = file_before(runs_file(books.paths, "main"));
  REQUIRE(store::replace_file(
      before, json::with_crc(R"({"seq":9,"fenceFloor":2,"sessions":{"k":{"fence":1,"takeover":{"name":"H"}}}})")));
  CHECK(may_have(0));
}
