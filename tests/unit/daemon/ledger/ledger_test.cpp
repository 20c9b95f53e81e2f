// The ledger as a whole, on a real disk: what was acknowledged is there after whatever happened, and what was not
// stored was never there.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <set>

#include "daemon/ledger/fetch.hpp"
#include "store/process.hpp"
#include "tests/unit/daemon/ledger/ledger_fixture.hpp"

using namespace sessiond;
using namespace sessiond::ledger;
using sessiond::testing::LedgerFixture;

namespace {

const std::string key = "agent:main:main";
using Keys = std::vector<std::string>;

config::Config shared_mode(std::int64_t lock_timeout_ms = 10'000) {
  config::Config config;
  config.store.mode = config::Config::StoreMode::shared;
  config.store.lock.timeout_ms = lock_timeout_ms;
  return config;
}

// A lock of a foreign program that lives: the one that runs this test.
class ForeignLock {
 public:
  explicit ForeignLock(const std::filesystem::path& target) : path_(target.native() + ".lock") {
    LedgerFixture::write_file(path_, fmt::format(R"({{"pid":{},"startedAt":1,"starttime":{}}})", ::getppid(),
                                                 store::process_status(::getppid()).starttime));
  }
  ~ForeignLock() { release(); }
  ForeignLock(const ForeignLock&) = delete;
  ForeignLock& operator=(const ForeignLock&) = delete;
  void release() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }

 private:
  std::filesystem::path path_;
};

void ok(const Result<Reply>& reply) { REQUIRE_MESSAGE(reply.has_value(), reply.error().detail); }

std::string text_at(const std::vector<std::string>& lines, std::size_t index) {
  REQUIRE(index < lines.size());
  const auto message = json::find(lines[index], "message").value_or("{}");
  const auto content = json::elements(json::find(message, "content").value_or("[]"));
  for (const auto part : content) return json::string_at(part, "text").value_or("");
  return json::string_at(message, "content").value_or("");
}

const std::string their_line = R"({"type":"message","id":"f1","parentId":null,"timestamp":"2026-01-01T00:00:00.000Z",)"
                               R"("message":{"role":"user","content":[{"type":"text","text":"theirs"}]}})"
                               "\n";

}  // namespace

TEST_CASE("a commit is answered, shown and counted once it is durable") {
  LedgerFixture fixture;
  const auto made = fixture.create(key, "s");
  REQUIRE(made);
  CHECK(made->status == 201);
  CHECK(fixture.ledger().parts().commits.durable() == 1);
  CHECK(fixture.shown() == Keys{key});
  const auto said = fixture.append(key, "hello");
  REQUIRE(said);
  CHECK(json::int_at(said->body, "lastSeq") == 0);
  const auto lines = fixture.lines("s.jsonl");
  REQUIRE(lines);
  CHECK(text_at(*lines, 0) == "hello");
  CHECK(status_of(fixture.ledger().parts()).counters.commits == 2);
}

TEST_CASE("what is decided in one round of the loop is stored together") {
  LedgerFixture fixture;
  ok(fixture.create(key, "s"));
  ok(fixture.append(key, "the first one waits for its transcript"));
  const auto before = status_of(fixture.ledger().parts()).counters;
  std::array<std::optional<Result<Reply>>, 20> replies;
  for (auto& reply : replies) fixture.start_run(fixture.append_command(key, "hello"), reply);
  fixture.run_until([&] { return std::ranges::all_of(replies, [](const auto& reply) { return reply.has_value(); }); });
  for (const auto& reply : replies) ok(*reply);
  const auto after = status_of(fixture.ledger().parts()).counters;
  CHECK(after.commits == before.commits + replies.size());
  CHECK(after.batches == before.batches + 1);
}

TEST_CASE("what is decided in the round in which a batch fails is taken back with it") {
  LedgerFixture fixture;
  ok(fixture.create(key, "s"));
  fixture.fail_disk();
  std::array<std::optional<Result<Reply>>, 20> replies;
  for (auto& reply : replies) {
    fixture.start_run(fixture.append_command(key, "hello"), reply);
    fixture.io().poll_one();  // some are with the journal when others are decided
  }
  fixture.run_until([&] { return std::ranges::all_of(replies, [](const auto& reply) { return reply.has_value(); }); });
  for (const auto& reply : replies) CHECK(!*reply);
  fixture.heal_disk();
  std::optional<Result<Reply>> again;
  fixture.run_until([&] {  // the journal is asked once a second
    again.reset();
    fixture.start_run(fixture.append_command(key, "at last"), again);
    fixture.run_until([&] { return again.has_value(); });
    return again->has_value();
  });
  CHECK(json::int_at((*again)->body, "lastSeq") == 0);
  fixture.kill();
  fixture.open();
  CHECK(fixture.lines("s.jsonl")->size() == 1);
}

TEST_CASE("what was staged when the ledger goes is stored") {
  LedgerFixture fixture;
  ok(fixture.create(key, "s"));
  std::optional<Result<Reply>> reply;
  fixture.start_run(fixture.append_command(key, "hello"), reply);
  const auto commits = [&] { return status_of(fixture.ledger().parts()).counters.commits; };
  fixture.run_until([&, before = commits()] { return commits() > before; });
  CHECK(!reply);
  fixture.kill();
  fixture.open();
  CHECK(fixture.lines("s.jsonl")->size() == 1);
}

TEST_CASE("a refused command leaves nothing behind") {
  LedgerFixture fixture;
  const auto refused = fixture.append("agent:main:absent", "hello");
  REQUIRE(!refused);
  CHECK(refused.error().code == Code::session_not_found);
  CHECK(fixture.ledger().parts().commits.durable() == 0);
}

TEST_CASE("an agent that nobody made is not found, and a refused read makes none") {
  LedgerFixture fixture;
  const auto keys = fixture.keys("nobody");
  REQUIRE(!keys);
  CHECK(keys.error().code == Code::agent_not_found);
  CHECK(fixture.await(fixture.ledger().agent_ids()).empty());
}

TEST_CASE("what was acknowledged outlives a kill without any checkpoint") {
  LedgerFixture fixture;
  ok(fixture.create(key, "s"));
  ok(fixture.append(key, "one"));
  ok(fixture.append(key, "two"));
  fixture.kill();
  fixture.open();
  CHECK(fixture.shown() == Keys{key});
  const auto lines = fixture.lines("s.jsonl");
  REQUIRE(lines);
  REQUIRE(lines->size() == 2);
  CHECK(text_at(*lines, 1) == "two");
  CHECK(fixture.ledger().parts().commits.durable() == 3);
}

TEST_CASE("recovering twice from one journal changes nothing more") {
  LedgerFixture fixture;
  ok(fixture.create(key, "s"));
  ok(fixture.append(key, "one"));
  ok(fixture.run(decide::ResetSession{.target = {.key = key}}));
  ok(fixture.append(key, "after the reset"));
  const auto entry = fixture.entry(key);
  REQUIRE(entry);
  for (int kills = 0; kills < 3; ++kills) {
    fixture.kill();
    fixture.open();
    const auto now = fixture.entry(key);
    REQUIRE(now);
    CHECK(*now == *entry);
    const auto lines = fixture.lines(json::string_at(*entry, "sessionId").value_or("") + ".jsonl");
    REQUIRE(lines);
    REQUIRE(lines->size() == 1);
    CHECK(text_at(*lines, 0) == "after the reset");
  }
}

TEST_CASE("a checkpoint brings sessions.json up to date, and CHECKPOINT says so") {
  LedgerFixture fixture;
  ok(fixture.create(key, "s"));
  fixture.checkpointed();
  CHECK(fixture.store_text().contains(key));
  CHECK(!files_of(fixture.ledger().parts().agents, "main").dirty);
  const std::string marks =
      LedgerFixture::text_of(std::filesystem::path(fixture.config().state_dir) / "journal/CHECKPOINT");
  CHECK(json::int_at(marks, "seq") == 1);
  fixture.kill();
  fixture.open();  // nothing is replayed
  CHECK(fixture.shown() == Keys{key});
}

TEST_CASE("closing checkpoints everything") {
  LedgerFixture fixture;
  ok(fixture.create(key, "s"));
  ok(fixture.append(key, "hello"));
  fixture.close();
  CHECK(fixture.store_text().contains(key));
  CHECK(LedgerFixture::text_of(fixture.in_agent("s.jsonl")).contains("hello"));
  fixture.open();
  CHECK(fixture.shown() == Keys{key});
}

TEST_CASE("a batch that was not stored is taken back, and commits go on when the disk is well again") {
  LedgerFixture fixture;
  ok(fixture.create(key, "s"));
  ok(fixture.append(key, "one"));
  fixture.fail_disk();
  const auto lost = fixture.create("agent:main:lost", "t");
  REQUIRE(!lost);
  CHECK(!status_of(fixture.ledger().parts()).refusal.empty());
  fixture.heal_disk();
  std::optional<Result<Reply>> again;
  fixture.run_until([&] {  // the journal is asked once a second
    again.reset();
    fixture.start_run(fixture.append_command(key, "two"), again);
    fixture.run_until([&] { return again.has_value(); });
    return again->has_value();
  });
  CHECK(fixture.shown() == Keys{key});
  CHECK(json::int_at((*again)->body, "lastSeq") == 1);
  const auto lines = fixture.lines("s.jsonl");
  REQUIRE(lines);
  CHECK(lines->size() == 2);
  fixture.kill();
  fixture.open();
  CHECK(fixture.shown() == Keys{key});
}

TEST_CASE("a read is never shown what is taken back") {
  LedgerFixture fixture;
  ok(fixture.create(key, "s"));
  fixture.fail_disk();
  std::optional<Result<Reply>> lost;
  fixture.start_run(decide::CreateSession{.key = "agent:main:lost", .session_id = "t"}, lost);
  std::optional<Result<Keys>> shown;
  fixture.start(fixture.ledger().show("main", false,
                                      [](const decide::AgentState& state, Seen&) -> Result<Keys> {
                                        Keys out;
                                        for (const auto& [name, session] : state.by_name()) out.emplace_back(name);
                                        return out;
                                      }),
                shown);
  fixture.run_until([&] { return shown.has_value() && lost.has_value(); });
  CHECK(!*lost);
  if (*shown) CHECK(**shown == Keys{key});  // or refused; never with the lost session
  fixture.heal_disk();
  fixture.run_until([&] {
    const auto keys = fixture.keys();
    return keys && *keys == Keys{key};
  });
}

TEST_CASE("sessions.json waits for a foreign lock, requests do not") {
  LedgerFixture fixture({.store = {.lock = {.timeout_ms = 200}}});
  ok(fixture.create(key, "s"));
  fixture.checkpointed();
  ForeignLock lock(fixture.in_agent("sessions.json"));
  ok(fixture.create("agent:main:second", "t"));
  const auto held = fixture.checkpoint();
  REQUIRE(!held);
  CHECK(held.error().code == Code::lock_timeout);
  CHECK(!fixture.store_text().contains("second"));
  CHECK(status_of(fixture.ledger().parts()).lock_waits == 1);
  lock.release();
  fixture.checkpointed();
  CHECK(fixture.store_text().contains("second"));
  CHECK(status_of(fixture.ledger().parts()).lock_waits == 0);
}

TEST_CASE("a foreign lock on one agent's store holds up no other agent") {
  LedgerFixture fixture({.store = {.lock = {.timeout_ms = 200}}});
  ok(fixture.create("agent:a:main", "s", "a"));
  ok(fixture.create("agent:b:main", "t", "b"));
  fixture.checkpointed();
  ForeignLock lock(fixture.in_agent("sessions.json", "a"));
  ok(fixture.create("agent:a:more", "u", "a"));
  ok(fixture.create("agent:b:more", "v", "b"));
  CHECK(!fixture.checkpoint());
  CHECK(!fixture.store_text("a").contains("more"));
  CHECK(fixture.store_text("b").contains("more"));
}

TEST_CASE("what a foreign program changes in sessions.json becomes a commit") {
  LedgerFixture fixture;
  ok(fixture.create(key, "s"));
  fixture.checkpointed();
  const std::uint64_t before = fixture.ledger().parts().commits.durable();
  std::string text = fixture.store_text();
  text.insert(text.find_last_of('}'), R"(,"agent:main:theirs":{"sessionId":"x","updatedAt":5})");
  LedgerFixture::write_file(fixture.in_agent("sessions.json"), text);
  CHECK(fixture.shown("main", true) == Keys{key, "agent:main:theirs"});
  CHECK(fixture.ledger().parts().commits.durable() > before);
  fixture.kill();
  fixture.open();
  CHECK(fixture.shown() == Keys{key, "agent:main:theirs"});
}

TEST_CASE("a foreign change and one of ours to the same session both stand") {
  LedgerFixture fixture;
  ok(fixture.create(key, "s"));
  fixture.checkpointed();
  ok(fixture.run(decide::PatchSession{.target = {.key = key}, .patch = R"({"label":"ours"})"}));
  std::string text = fixture.store_text();
  text.insert(text.find(R"("sessionId")"), R"("theirs":1,)");
  LedgerFixture::write_file(fixture.in_agent("sessions.json"), text);
  fixture.checkpointed();
  const auto entry = fixture.entry(key);
  REQUIRE(entry);
  CHECK(json::string_at(*entry, "label") == "ours");
  CHECK(json::int_at(*entry, "theirs") == 1);
  CHECK(fixture.store_text().contains(R"("label":"ours")"));
}

TEST_CASE("lines that a foreign program appends are published, and ours follow them") {
  LedgerFixture fixture;
  ok(fixture.create(key, "s"));
  ok(fixture.append(key, "one"));
  fixture.checkpointed();
  LedgerFixture::write_file(fixture.in_agent("s.jsonl"), their_line, std::ios::app);
  const auto said = fixture.append(key, "three");
  REQUIRE(said);
  CHECK(json::int_at(said->body, "lastSeq") == 2);
  const auto lines = fixture.lines("s.jsonl");
  REQUIRE(lines);
  REQUIRE(lines->size() == 3);
  CHECK(text_at(*lines, 1) == "theirs");
  CHECK(text_at(*lines, 2) == "three");
}

TEST_CASE("an append in shared mode is in its file, and the lock is free, when it is answered") {
  LedgerFixture fixture(shared_mode());
  ok(fixture.create(key, "s"));
  ok(fixture.append(key, "hello"));
  CHECK(LedgerFixture::text_of(fixture.in_agent("s.jsonl")).contains("hello"));
  CHECK(!std::filesystem::exists(fixture.in_agent("s.jsonl.lock")));
}

TEST_CASE("an append in shared mode waits for a foreign lock on its transcript; others do not") {
  LedgerFixture fixture(shared_mode());
  ok(fixture.create(key, "s"));
  ok(fixture.create("agent:main:other", "t"));
  ok(fixture.append(key, "one"));
  ForeignLock lock(fixture.in_agent("s.jsonl"));
  std::optional<Result<Reply>> waiting;
  fixture.start_run(fixture.append_command(key, "two"), waiting);
  ok(fixture.append("agent:main:other", "hello"));
  CHECK(!waiting);
  CHECK(fixture.ledger().parts().env.lock_waiters.size() == 1);
  LedgerFixture::write_file(fixture.in_agent("s.jsonl"), their_line, std::ios::app);
  lock.release();
  fixture.run_until([&] { return waiting.has_value(); });
  REQUIRE(*waiting);
  CHECK(json::int_at((*waiting)->body, "lastSeq") == 2);
  CHECK(fixture.ledger().parts().env.lock_waiters.empty());
}

// Reads the end of "s.jsonl", and forgets it after the read has begun when `forgets`.
asio::awaitable<Result<void>> read_end(LedgerParts& parts, bool forgets) {
  const std::string agent = "main";
  decide::TranscriptEnds& ends = parts.agents.find_or_add(agent).state->transcripts;
  decide::FetchedLines lines;
  decide::FetchedIds ids;
  decide::FetchedKept kept;
  std::optional<Result<void>> read;
  const decide::Need need{.what = decide::Need::What::transcript_end, .file = "s.jsonl"};
  asio::co_spawn(parts.env.io, fetch(parts, agent, need, lines, ids, kept),
                 [&read](const std::exception_ptr& failure, Result<void> result) {
                   REQUIRE(!failure);
                   read.emplace(std::move(result));
                 });
  // The read is on a disk thread now. Its outcome is taken on this thread, so not before the next co_await.
  REQUIRE(!read);
  if (forgets) {
    ends.find_or_add("s.jsonl");  // as another commit that read it at the same time
    ends.forget("s.jsonl");
  }
  while (!read) co_await asio::post(parts.env.io, asio::use_awaitable);
  co_return std::move(*read);
}

TEST_CASE("an end that was read while the file was forgotten is not put in") {
  LedgerFixture fixture(shared_mode());
  ok(fixture.create(key, "s"));
  ok(fixture.append(key, "first"));
  auto& parts = const_cast<LedgerParts&>(fixture.ledger().parts());  // the ledger itself is not const
  decide::TranscriptEnds& ends = parts.agents.find_or_add("main").state->transcripts;
  ends.forget("s.jsonl");
  CHECK(fixture.await(read_end(parts, true)));
  CHECK(ends.find("s.jsonl") == nullptr);
  CHECK(fixture.await(read_end(parts, false)));
  REQUIRE(ends.find("s.jsonl") != nullptr);
  CHECK(ends.find("s.jsonl")->count == 1);
}

TEST_CASE("no place is told twice when appends read the end of a transcript at once, beside foreign lines") {
  LedgerFixture fixture(shared_mode());
  ok(fixture.create(key, "s"));
  ok(fixture.append(key, "first"));
  std::set<std::int64_t> told;
  for (int round = 0; round < 50; ++round) {
    LedgerFixture::write_file(fixture.in_agent("s.jsonl"), their_line, std::ios::app);
    std::array<std::optional<Result<Reply>>, 8> ours;
    for (auto& reply : ours) fixture.start_run(fixture.append_command(key, "ours"), reply);
    fixture.run_until([&] { return std::ranges::all_of(ours, [](const auto& reply) { return reply.has_value(); }); });
    for (const auto& reply : ours) {
      ok(*reply);
      const auto seq = json::int_at((*reply)->body, "lastSeq");
      REQUIRE(seq);
      CHECK_MESSAGE(told.insert(*seq).second, fmt::format("round {}: {} was told before", round, *seq));
    }
  }
}

TEST_CASE("draining ends the waits for a foreign lock") {
  LedgerFixture fixture(shared_mode());
  ok(fixture.create(key, "s"));
  ForeignLock lock(fixture.in_agent("s.jsonl"));
  std::optional<Result<Reply>> waiting;
  fixture.start_run(fixture.append_command(key, "one"), waiting);
  fixture.run_until([&] { return !fixture.ledger().parts().env.lock_waiters.empty(); });
  fixture.ledger().drain();
  fixture.run_until([&] { return waiting.has_value(); });
  REQUIRE(!*waiting);
  CHECK((*waiting).error().code == Code::draining);
}

TEST_CASE("an agent that rests leaves memory, and comes back as it was") {
  LedgerFixture fixture({.store = {.cache_ttl_ms = 50}});
  ok(fixture.create(key, "s"));
  ok(fixture.append(key, "hello"));
  fixture.checkpointed();
  fixture.run_until([&] { return status_of(fixture.ledger().parts()).agents == 0; });
  CHECK(fixture.shown() == Keys{key});
  CHECK(status_of(fixture.ledger().parts()).agents == 1);
  const auto said = fixture.append(key, "again");
  REQUIRE(said);
  CHECK(json::int_at(said->body, "lastSeq") == 1);
}

TEST_CASE("a store that cannot be read degrades its agent alone, until it is put right") {
  LedgerFixture fixture;
  ok(fixture.create("agent:a:main", "s", "a"));
  ok(fixture.create("agent:b:main", "t", "b"));
  fixture.close();
  const auto store = fixture.in_agent("sessions.json", "a");
  std::filesystem::rename(store, store.native() + ".aside");
  std::filesystem::create_directory(store);
  fixture.open();
  const auto refused = fixture.keys("a");
  REQUIRE(!refused);
  CHECK(refused.error().code == Code::degraded);
  CHECK(fixture.shown("b") == Keys{"agent:b:main"});
  CHECK(status_of(fixture.ledger().parts()).degraded.size() == 1);
  std::filesystem::remove(store);
  std::filesystem::rename(store.native() + ".aside", store);
  CHECK(fixture.shown("a") == Keys{"agent:a:main"});
  CHECK(status_of(fixture.ledger().parts()).degraded.empty());
}

TEST_CASE("a store that is gone is rebuilt from the generation before it and the journal") {
  LedgerFixture fixture;
  ok(fixture.create(key, "s"));
  fixture.checkpointed();
  ok(fixture.create("agent:main:second", "t"));
  fixture.close();
  std::filesystem::remove(fixture.in_agent("sessions.json"));
  fixture.open();
  CHECK(fixture.shown() == Keys{key, "agent:main:second"});
  CHECK(!status_of(fixture.ledger().parts()).repairs.empty());
}

TEST_CASE("an answer is replayed to whoever brings its key again, after a kill too") {
  LedgerFixture fixture;
  ok(fixture.create(key, "s"));
  const auto who = [](std::string_view request) {
    return Requester{.actor = "test", .scope = IdempotencyScope{.before = "k "}, .request = answers::digest(request)};
  };
  const auto first = fixture.run(fixture.append_command(key, "once"), "main", who("a"));
  REQUIRE(first);
  CHECK(!first->replayed);
  for (int times = 0; times < 2; ++times) {
    const auto again = fixture.run(fixture.append_command(key, "once"), "main", who("a"));
    REQUIRE(again);
    CHECK(again->replayed);
    CHECK(again->body == first->body);
    fixture.kill();
    fixture.open();
  }
  const auto other = fixture.run(fixture.append_command(key, "twice"), "main", who("b"));
  REQUIRE(!other);
  CHECK(other.error().code == Code::idempotency_key_reused);
  const auto lines = fixture.lines("s.jsonl");
  REQUIRE(lines);
  CHECK(lines->size() == 1);
}

TEST_CASE("a snapshot holds what is durable, and stays as it is while commits go on") {
  LedgerFixture fixture;
  ok(fixture.create(key, "s"));
  auto snapshot = fixture.await(fixture.ledger().checkpointer().take_snapshot());
  REQUIRE(snapshot);
  ok(fixture.create("agent:main:second", "t"));
  fixture.checkpointed();
  CHECK((*snapshot)->as_of == fixture.ledger().parts().commits.journal().epoch() + "-1");
  bool found = false;
  for (const SnapshotFile& file : (*snapshot)->files) {
    if (!file.name.ends_with("sessions.json")) continue;
    found = true;
    CHECK(!LedgerFixture::text_of(file.path).contains("second"));
  }
  CHECK(found);
}
