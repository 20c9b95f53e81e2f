#include "store/journal/file_journal.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <atomic>
#include <thread>

#include "store/crc32.hpp"
#include "store/json/raw_json.hpp"
#include "tests/unit/store/journal/journal_fixture.hpp"

namespace sessiond::journal {
namespace {

using namespace journal_test;

TEST_CASE("a new journal is empty, has an epoch and keeps both over a restart") {
  const TempDir dir;
  std::string epoch;
  {
    TestJournal journal({.dir = dir.path() / "journal"});
    REQUIRE(journal.ok());
    CHECK(journal->report().created);
    CHECK(journal->head() == 0);
    CHECK(journal->oldest() == 1);
    CHECK(journal->bytes_after(0) == 0);
    CHECK(journal->epoch().size() == 8);
    const auto page = journal->read(1, 1000);
    REQUIRE(page.has_value());
    CHECK(page->batches.empty());
    CHECK(page->next == 1);
    epoch = journal->epoch();
  }
  TestJournal again({.dir = dir.path() / "journal"});
  REQUIRE(again.ok());
  CHECK_FALSE(again->report().created);
  CHECK(again->report().repairs.empty());
  CHECK(again->epoch() == epoch);
  CHECK(again->head() == 0);
}

TEST_CASE("what is committed is a line that jq and crc32 can read") {
  const TempDir dir;
  const std::vector<LinePosition> positions{
      {.file = "f", .agent = "a", .at = 7, .seq = 1, .line = "{\"type\":\"session\"}\n"},
      {.file = "f", .agent = "a", .seq = 2, .length = 9, .inode = 3},
      {.file = "f", .agent = "a", .at = 26, .seq = 2, .unstamped = true},
      {.agent = "a", .seq = 2, .archives = {"x", "\"y\""}}};
  {
    TestJournal journal({.dir = dir.path()});
    Commit one = commit(1, 2);
    one.answers = {R"({"k":"a"})"};
    one.line_positions = positions;
    const BatchOutcome outcome = journal.put(one);
    CHECK(outcome.kind == BatchOutcome::Kind::durable);
    CHECK(outcome.first == 1);
    CHECK(outcome.last == 2);
    CHECK(outcome.generation == 0);
    REQUIRE(outcome.commits.size() == 1);
    CHECK(outcome.commits[0].events.size() == 2);
    CHECK(journal->head() == 2);
  }
  const auto text = store::read_file(dir.path() / "00000000000000000001.jsonl");
  REQUIRE(text.has_value());
  const std::string body = R"({"seq":1,"events":[{"seq":1,"text":"x"},{"seq":2,"text":"x"}],"answers":[{"k":"a"}],)"
                           R"("places":[{"file":"f","agent":"a","at":7,"seq":1,"line":"{\"type\":\"session\"}\n"},)"
                           R"({"file":"f","agent":"a","seq":2,"length":9,"inode":3},)"
                           R"({"file":"f","agent":"a","at":26,"seq":2,"unstamped":true},)"
                           R"({"agent":"a","seq":2,"archives":["x","\"y\""]}]})";
  CHECK(*text == fmt::format("{:08x} {}\n", store::crc32_of(body), body));
  struct stat status{};
  REQUIRE(::stat((dir.path() / "00000000000000000001.jsonl").c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);

  TestJournal again({.dir = dir.path()});
  const auto page = again->read(1, 1);
  REQUIRE(page.has_value());
  REQUIRE(page->batches.size() == 1);
  CHECK(page->batches[0].first == 1);
  CHECK(*page->batches[0].events[1] == event_json(2));
  CHECK(page->batches[0].answers == std::vector<std::string>{R"({"k":"a"})"});
  CHECK(page->batches[0].line_positions == positions);
  CHECK(page->next == 3);
}

TEST_CASE("reading in the middle of a batch drops its earlier events") {
  const TempDir dir;
  TestJournal journal({.dir = dir.path()});
  journal.put(commit(1, 5));
  journal.put(commit(6, 3));
  const auto page = journal->read(4, 1);
  REQUIRE(page.has_value());
  REQUIRE(page->batches.size() == 1);
  CHECK(page->batches[0].first == 4);
  CHECK(page->batches[0].events.size() == 2);
  CHECK(page->next == 6);
  CHECK(journal->read(9, 100)->batches.empty());
  CHECK(journal->read(99, 100)->next == 99);
  REQUIRE_FALSE(journal->read(0, 100).has_value());
  CHECK(journal->read(0, 100).error().code == Code::bad_cursor);
}

TEST_CASE("values keep their bytes; a raw newline between tokens cannot end a line") {
  const TempDir dir;
  const std::string odd = R"({"a":1e400,"b":"\ud800 \\n ]}[{","c":12345678901234567890,  "d":[[],{}],"e":"ü"})";
  {
    TestJournal journal({.dir = dir.path()});
    Commit one{
        .first_seq = 1, .events = {std::make_shared<const std::string>(odd)}, .answers = {}, .line_positions = {}};
    one.events.push_back(std::make_shared<const std::string>("{\"seq\":2,\n\"x\":\n1}"));
    journal.put(one);
    journal.put(commit(3));
  }
  TestJournal again({.dir = dir.path()});
  REQUIRE(again.ok());
  const auto all = read_all(*again, 1);
  CHECK(all.at(1) == odd);
  CHECK(all.at(2) == "{\"seq\":2, \"x\": 1}");
  CHECK(all.size() == 3);
}

TEST_CASE("commits without events are kept and read back once") {
  const TempDir dir;
  const auto answers_from = [](Journal& journal, std::uint64_t from) {
    std::vector<std::string> answers;
    for (;;) {
      const auto page = journal.read(from, 1);
      REQUIRE(page.has_value());
      for (const StoredBatch& batch : page->batches)
        answers.insert(answers.end(), batch.answers.begin(), batch.answers.end());
      if (page->next == from || page->next > journal.head()) return answers;
      from = page->next;
    }
  };
  const auto answer = [](std::uint64_t first, std::string text) {
    return Commit{.first_seq = first, .events = {}, .answers = {std::move(text)}, .line_positions = {}};
  };
  for (const std::uint64_t segment_bytes : {1ULL, 1ULL << 20}) {
    const TempDir sub;
    {
      TestJournal journal({.dir = sub.path(), .segment_bytes = segment_bytes});
      const BatchOutcome outcome = journal.put(answer(1, "1"));
      CHECK(outcome.kind == BatchOutcome::Kind::durable);
      CHECK(outcome.last == 0);
      journal.put(commit(1));
      journal.put(answer(2, "2"));
      journal.put(answer(2, "3"));
      journal.put(commit(2));
      journal.put(answer(3, "4"));
      CHECK(journal->head() == 2);
    }
    TestJournal again({.dir = sub.path(), .segment_bytes = segment_bytes});
    REQUIRE(again.ok());
    CHECK(again->head() == 2);
    CHECK(read_all(*again, 1).size() == 2);
    CHECK(answers_from(*again, 1) == std::vector<std::string>{"1", "2", "3", "4"});
    CHECK(answers_from(*again, 3) == std::vector<std::string>{"4"});
  }
}

TEST_CASE("waiting commits share one batch; it is bounded") {
  const TempDir dir;
  std::atomic<bool> hold = true;
  auto ops = std::make_shared<JournalFileOps>();
  ops->write = [&](int fd, const void* bytes, std::size_t length, off_t at) {
    hold.wait(true);
    return ::pwrite(fd, bytes, length, at);
  };
  TestJournal journal({.dir = dir.path(), .file_ops = ops});
  const std::string big(1 << 20, 'b');
  for (std::uint64_t seq = 1; seq <= 10'000; ++seq) journal.append(commit(seq));
  for (std::uint64_t seq = 10'001; seq <= 10'020; ++seq) journal.append(commit(seq, 1, big));
  hold = false;
  hold.notify_all();
  journal.drain();
  CHECK(journal->head() == 10'020);
  std::uint64_t next = 1;
  for (const BatchOutcome& outcome : journal.outcomes()) {
    CHECK(outcome.kind == BatchOutcome::Kind::durable);
    CHECK(outcome.first == next);
    CHECK(outcome.commits.size() <= 4096);
    CHECK(outcome.bytes < 10ULL << 20);
    next = outcome.last + 1;
  }
  CHECK(next == 10'021);
  CHECK(journal.outcomes().size() < 20);
}

TEST_CASE("a seq that does not follow is refused and nothing behind it is stored until resume") {
  const TempDir dir;
  TestJournal journal({.dir = dir.path()});
  journal.put(commit(1));
  CHECK(journal.put(commit(3)).kind == BatchOutcome::Kind::not_stored);
  CHECK(journal.put(commit(2)).kind == BatchOutcome::Kind::not_stored);
  REQUIRE(journal->resume().has_value());
  REQUIRE(journal->resume().has_value());
  const BatchOutcome outcome = journal.put(commit(2));
  CHECK(outcome.kind == BatchOutcome::Kind::durable);
  CHECK(outcome.generation == 1);
  CHECK(read_all(*journal, 1).size() == 2);
}

TEST_CASE("segments roll, sealed ones have an index, and all of it is read back") {
  const TempDir dir;
  {
    TestJournal journal({.dir = dir.path(), .segment_bytes = 400'000});
    std::uint64_t seq = 1;
    for (int i = 0; i < 300; ++i, seq += 3) journal.put(commit(seq, 3, std::string(1500, 'r')));
    CHECK(segments(dir.path()).size() >= 4);
    CHECK(count_files(dir.path(), ".idx") == segments(dir.path()).size() - 1);
    CHECK(read_all(*journal, 1, 50'000).size() == 900);
  }
  TestJournal again({.dir = dir.path(), .segment_bytes = 400'000});
  REQUIRE(again.ok());
  CHECK(again->head() == 900);
  for (const std::uint64_t from : {1ULL, 2ULL, 449ULL, 450ULL, 451ULL, 898ULL, 900ULL})
    CHECK(read_all(*again, from, 100'000).size() == 901 - from);
  const auto total = again->bytes_after(0);
  CHECK(total > 300 * 4500);
  CHECK(again->bytes_after(900) == 0);
  std::uint64_t before = total;
  for (std::uint64_t seq = 0; seq <= 900; seq += 10) {
    const auto bytes = again->bytes_after(seq);
    CHECK(bytes <= before);
    const auto exact = (900 - seq) * 1550;
    CHECK(bytes + 200'000 > exact);
    CHECK(bytes < exact + 200'000);
    before = bytes;
  }
}

TEST_CASE("retention lets go of whole old segments that are released, never of the live one") {
  const TempDir dir;
  const JournalOptions options{.dir = dir.path(), .segment_bytes = 1000, .max_bytes = 5000};
  TestJournal journal(options);
  for (std::uint64_t seq = 1; seq <= 100; ++seq) journal.put(commit(seq, 1, std::string(100, 'k')));
  const std::size_t all = segments(dir.path()).size();
  journal->release(0, 0);
  CHECK(segments(dir.path()).size() == all);
  CHECK(journal->oldest() == 1);
  journal->release(20, 0);
  CHECK(journal->oldest() <= 21);
  CHECK(journal->oldest() > 10);
  journal->release(100, 0);
  CHECK(segments(dir.path()).size() <= 6);
  CHECK(segments(dir.path()).size() >= 4);
  CHECK(journal->oldest() > 60);
  CHECK(journal->read(journal->oldest() - 1, 10).error().code == Code::bad_cursor);
  CHECK(read_all(*journal, journal->oldest()).size() == 101 - journal->oldest());
  CHECK(count_files(dir.path(), ".idx") == segments(dir.path()).size() - 1);

  SUBCASE("by age") {
    const auto names = segments(dir.path());
    journal->release(100, journal->oldest() - 1);
    CHECK(segments(dir.path()) == names);
    journal->release(100, 100);
    CHECK(segments(dir.path()) == std::vector<std::string>{names.back()});
  }
  SUBCASE("and goes on after a restart") {
    const auto oldest = journal->oldest();
    const TempDir copy;
    fs::copy(dir.path(), copy.path(), fs::copy_options::recursive);
    JournalOptions there = options;
    there.dir = copy.path();
    TestJournal again(there);
    REQUIRE(again.ok());
    CHECK(again->oldest() == oldest);
    CHECK(again->head() == 100);
    CHECK(again.put(commit(101)).kind == BatchOutcome::Kind::durable);
  }
}

TEST_CASE("a journal can begin at a given seq") {
  const TempDir dir;
  {
    TestJournal journal({.dir = dir.path(), .first_seq = 5000});
    CHECK(journal->head() == 4999);
    CHECK(journal->oldest() == 5000);
    CHECK(journal.put(commit(5000)).kind == BatchOutcome::Kind::durable);
  }
  TestJournal again({.dir = dir.path(), .first_seq = 1});
  CHECK(again->head() == 5000);
}

TEST_CASE("a lost journal and a lost EPOCH are another epoch") {
  const TempDir dir;
  std::string epoch;
  {
    TestJournal journal({.dir = dir.path()});
    journal.put(commit(1));
    epoch = journal->epoch();
  }
  SUBCASE("EPOCH is gone") {
    fs::remove(dir.path() / "EPOCH");
    TestJournal again({.dir = dir.path()});
    CHECK(again->epoch() != epoch);
    CHECK(again->head() == 1);
    CHECK(again->report().repairs.size() == 1);
  }
  SUBCASE("EPOCH is garbage") {
    write_file(dir.path() / "EPOCH", "{\"epoch\":\"../../..\"}");
    TestJournal again({.dir = dir.path()});
    CHECK(again->epoch() != epoch);
    CHECK(again->report().repairs.size() == 1);
  }
  SUBCASE("the segments are gone") {
    fs::remove(dir.path() / segments(dir.path()).front());
    TestJournal again({.dir = dir.path()});
    CHECK(again->epoch() != epoch);
    CHECK(again->report().created);
    CHECK(again->head() == 0);
  }
}

TEST_CASE("the destructor writes what waits") {
  const TempDir dir;
  {
    TestJournal journal({.dir = dir.path()});
    for (std::uint64_t seq = 1; seq <= 5000; ++seq) journal.append(commit(seq));
  }
  TestJournal again({.dir = dir.path()});
  CHECK(again->head() == 5000);
}

TEST_CASE("many threads append, others read meanwhile and see only what is durable, each event once") {
  const TempDir dir;
  TestJournal journal({.dir = dir.path(), .segment_bytes = 50'000});
  constexpr std::uint64_t last = 4000;
  std::mutex order;
  std::uint64_t next = 1;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (;;) {
        const std::scoped_lock lock(order);
        if (next > last) return;
        journal.append(commit(next));
        ++next;
      }
    });
  }
  std::atomic<int> wrong = 0;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      std::uint64_t from = 1;
      while (from <= last) {
        const std::uint64_t head = journal->head();
        const auto page = journal->read(from, 2000);
        if (!page) {
          ++wrong;
          return;
        }
        for (const StoredBatch& batch : page->batches)
          for (std::size_t e = 0; e < batch.events.size(); ++e)
            if (*batch.events[e] != event_json(from++)) ++wrong;
        if (from != page->next || (from <= head && page->batches.empty())) ++wrong;
        if (page->batches.empty()) std::this_thread::yield();
        static_cast<void>(journal->bytes_after(from));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  journal.drain();
  CHECK(journal->head() == last);
}

}  // namespace
}  // namespace sessiond::journal
