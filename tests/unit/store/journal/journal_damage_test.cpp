// Journals that were cut, scratched or robbed of a file.
#include <doctest/doctest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "store/journal/journal.hpp"
#include "tests/unit/store/journal/journal_fixture.hpp"

namespace sessiond::journal {
namespace {

using namespace journal_test;

const std::string only = "00000000000000000001.jsonl";

// Three batches in one segment: seqs 1..2, 3, 4..5.
std::string three_batches(const fs::path& dir) {
  TestJournal journal({.dir = dir});
  journal.put(commit(1, 2));
  journal.put(commit(3, 1, "three"));
  journal.put(commit(4, 2, "last"));
  return *store::read_file(dir / only);
}
std::size_t start_of_line(const std::string& text, int line) {
  std::size_t at = 0;
  for (int i = 0; i < line; ++i) at = text.find('\n', at) + 1;
  return at;
}

TEST_CASE("cut at any byte of the last batch: that batch is gone, all before it is there, and it goes on") {
  const TempDir dir;
  const std::string text = three_batches(dir.path());
  const std::size_t last = start_of_line(text, 2);
  for (std::size_t size = last; size < text.size(); ++size) {
    CAPTURE(size);
    const TempDir copy;
    fs::copy(dir.path() / "EPOCH", copy.path() / "EPOCH");
    write_file(copy.path() / only, text.substr(0, size));
    {
      TestJournal journal({.dir = copy.path()});
      REQUIRE(journal.ok());
      CHECK(journal->head() == 3);
      CHECK(journal->report().repairs.size() == (size == last ? 0 : 1));
      CHECK(count_files(copy.path(), ".torn.") == (size == last ? 0 : 1));
      CHECK(*store::read_file(copy.path() / only) == text.substr(0, last));
      CHECK(journal.put(commit(4)).kind == BatchOutcome::Kind::durable);
    }
    TestJournal again({.dir = copy.path()});
    REQUIRE(again.ok());
    CHECK(again->report().repairs.empty());
    CHECK(read_all(*again, 1).size() == 4);
  }
}

TEST_CASE("a last line with lost pages, newline and all, is a torn batch and kept aside") {
  const TempDir dir;
  std::string text = three_batches(dir.path());
  const std::size_t last = start_of_line(text, 2);
  for (std::size_t i = last + 12; i < last + 30; ++i) text[i] = '\0';
  write_file(dir.path() / only, text);
  TestJournal journal({.dir = dir.path()});
  REQUIRE(journal.ok());
  CHECK(journal->head() == 3);
  REQUIRE(count_files(dir.path(), ".torn.") == 1);
  for (const auto& entry : fs::directory_iterator(dir.path()))
    if (entry.path().native().contains(".torn.")) CHECK(*store::read_file(entry.path()) == text.substr(last));
}

TEST_CASE("any flipped bit before the last batch is found, named, and repaired only when asked") {
  const TempDir dir;
  const std::string text = three_batches(dir.path());
  const std::size_t second = start_of_line(text, 1);
  const std::size_t last = start_of_line(text, 2);
  for (std::size_t at = 0; at < last; ++at) {
    const std::size_t bit = at % 8;
    CAPTURE(at);
    std::string damaged = text;
    damaged[at] = static_cast<char>(damaged[at] ^ 1 << bit);
    write_file(dir.path() / only, damaged);
    TestJournal journal({.dir = dir.path()});
    REQUIRE_FALSE(journal.ok());
    CHECK(journal.problem().code == Code::degraded);
    CHECK(journal.problem().detail.contains(only));
    CHECK(journal.problem().detail.contains(fmt::format("offset {}", at < second ? 0 : second)));
    CHECK(*store::read_file(dir.path() / only) == damaged);
  }
  CHECK(count_files(dir.path(), ".damaged.") == 0);
}

TEST_CASE("any flipped bit of the last batch never yields a changed event") {
  const TempDir dir;
  const std::string text = three_batches(dir.path());
  const std::size_t last = start_of_line(text, 2);
  for (std::size_t at = last; at < text.size(); ++at) {
    CAPTURE(at);
    const TempDir copy;
    std::string damaged = text;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    write_file(copy.path() / only, damaged);
    TestJournal journal({.dir = copy.path()});
    REQUIRE(journal.ok());
    CHECK(journal->head() == 3);
    CHECK(journal->report().repairs.size() == 2);  // and the EPOCH that is not there
  }
}

TEST_CASE("repair keeps what is before and after the damage, puts it aside, and is another epoch") {
  for (const bool newline_lost : {false, true}) {
    CAPTURE(newline_lost);
    const TempDir dir;
    std::string text = three_batches(dir.path());
    const std::size_t second = start_of_line(text, 1);
    const std::size_t last = start_of_line(text, 2);
    std::string epoch;
    text[newline_lost ? last - 1 : second + 20] ^= 1;
    write_file(dir.path() / only, text);
    {
      TestJournal journal({.dir = dir.path(), .repair = true});
      REQUIRE(journal.ok());
      CHECK(journal->head() == 5);
      CHECK(journal->report().repairs.size() >= 2);
      const auto all = read_all(*journal, 1);
      CHECK(all.size() == 4);
      CHECK_FALSE(all.contains(3));
      CHECK(all.at(5) == event_json(5, "last"));
      CHECK(journal.put(commit(6)).kind == BatchOutcome::Kind::durable);
      epoch = journal->epoch();
      REQUIRE(count_files(dir.path(), ".damaged.") == 1);
      for (const auto& entry : fs::directory_iterator(dir.path()))
        if (entry.path().native().contains(".damaged."))
          CHECK(*store::read_file(entry.path()) == text.substr(second, last - second));
    }
    TestJournal again({.dir = dir.path()});
    REQUIRE(again.ok());
    CHECK(again->report().repairs.empty());
    CHECK(again->epoch() == epoch);
    CHECK(read_all(*again, 1).size() == 5);
    const auto page = again->read(3, 1);
    REQUIRE(page.has_value());
    CHECK(page->batches.at(0).first == 4);
  }
}

TEST_CASE("repair of a damaged beginning, of a damaged end, and of nothing but damage") {
  const TempDir dir;
  std::string text = three_batches(dir.path());
  const std::size_t second = start_of_line(text, 1);
  SUBCASE("beginning") {
    text[3] ^= 1;
    write_file(dir.path() / only, text);
    TestJournal journal({.dir = dir.path(), .repair = true});
    REQUIRE(journal.ok());
    CHECK(journal->oldest() == 3);
    CHECK(journal->head() == 5);
    CHECK(read_all(*journal, 3).size() == 3);
  }
  SUBCASE("end") {
    text[second + 3] ^= 1;
    text[text.size() - 3] ^= 1;
    write_file(dir.path() / only, text);
    TestJournal journal({.dir = dir.path(), .repair = true});
    REQUIRE(journal.ok());
    CHECK(journal->head() == 2);
    CHECK(journal.put(commit(3)).kind == BatchOutcome::Kind::durable);
  }
  SUBCASE("all of it") {
    write_file(dir.path() / only, "garbage\nand more\n\n");
    REQUIRE_FALSE(TestJournal({.dir = dir.path()}).ok());
    TestJournal journal({.dir = dir.path(), .repair = true});
    REQUIRE(journal.ok());
    CHECK(journal->head() == 0);
    CHECK(journal.put(commit(1)).kind == BatchOutcome::Kind::durable);
  }
}

// Four or more segments of a few events each.
std::vector<std::string> many_segments(const fs::path& dir) {
  TestJournal journal({.dir = dir, .segment_bytes = 300});
  for (std::uint64_t seq = 1; seq <= 20; ++seq) journal.put(commit(seq));
  return segments(dir);
}

TEST_CASE("a missing segment is noticed; a repair accepts the hole and names it") {
  const TempDir dir;
  const auto names = many_segments(dir.path());
  REQUIRE(names.size() >= 4);
  fs::remove(dir.path() / names[1]);
  TestJournal refused({.dir = dir.path()});
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.problem().code == Code::degraded);
  CHECK(refused.problem().detail.contains("missing"));
  {
    TestJournal journal({.dir = dir.path(), .repair = true});
    REQUIRE(journal.ok());
    CHECK(journal->report().repairs.size() == 2);
  }
  TestJournal again({.dir = dir.path()});
  REQUIRE(again.ok());
  CHECK(again->report().repairs.empty());
  CHECK(again->head() == 20);
  const auto all = read_all(*again, 1);
  CHECK(all.size() < 20);
  CHECK(all.contains(1));
  CHECK(all.contains(20));
}

TEST_CASE("indexes are made again when missing, damaged, or another segment's") {
  const TempDir dir;
  const auto names = many_segments(dir.path());
  const auto idx = [&](std::size_t i) { return dir.path() / fs::path(names[i]).replace_extension(".idx"); };
  const std::string good = *store::read_file(idx(0));
  fs::remove(idx(0));
  std::string flipped = *store::read_file(idx(1));
  flipped[20] ^= 1;
  write_file(idx(1), flipped);
  write_file(idx(2), good);
  write_file(dir.path() / "00000000000000000999.idx", "left over");
  write_file(dir.path() / "1.jsonl", "no segment");
  fs::create_directories(dir.path() / "keys");
  {
    TestJournal journal({.dir = dir.path()});
    REQUIRE(journal.ok());
    CHECK(journal->head() == 20);
    CHECK(read_all(*journal, 1).size() == 20);
  }
  CHECK(*store::read_file(idx(0)) == good);
}

TEST_CASE("damage in a sealed segment is found when it is read, or when its index has to be made again") {
  const TempDir dir;
  const auto names = many_segments(dir.path());
  std::string text = *store::read_file(dir.path() / names[1]);
  text[text.size() / 2] ^= 1;
  write_file(dir.path() / names[1], text);
  {
    TestJournal journal({.dir = dir.path()});
    REQUIRE(journal.ok());
    const auto before = journal->read(1, 1 << 20);
    REQUIRE(before.has_value());
    CHECK(before->next > 1);
    const auto page = journal->read(before->next, 1 << 20);
    REQUIRE_FALSE(page.has_value());
    CHECK(page.error().code == Code::degraded);
    CHECK(page.error().detail.contains(names[1]));
  }
  fs::remove(dir.path() / fs::path(names[1]).replace_extension(".idx"));
  REQUIRE_FALSE(TestJournal({.dir = dir.path()}).ok());
  TestJournal repaired({.dir = dir.path(), .repair = true});
  REQUIRE(repaired.ok());
  CHECK(repaired->head() == 20);
  CHECK(read_all(*repaired, 1).size() < 20);
}

// Every event that each_event() gives from `from` on, and the stretches that it says are lost.
struct Followed {
  std::vector<std::uint64_t> seqs{};
  std::vector<std::pair<std::uint64_t, std::uint64_t>> lost{};
};
Followed follow(const Journal& journal, std::uint64_t from) {
  Followed out;
  while (from <= journal.head()) {
    const auto read = journal.each_event(from, 300, [&](std::uint64_t seq, std::string_view json) {
      CHECK(json == event_json(seq));
      out.seqs.push_back(seq);
    });
    REQUIRE(read.has_value());
    REQUIRE(read->next > from);
    if (read->lost) out.lost.emplace_back(from, read->next);
    from = read->next;
  }
  return out;
}

TEST_CASE("damage anywhere before what recovery needs is stepped over, and every other event is given") {
  const TempDir dir;
  const auto names = many_segments(dir.path());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string whole = *store::read_file(dir.path() / names[i]);
    for (std::size_t at = 0; at + 1 < whole.size(); at += 37) {
      for (const bool indexed : {true, false}) {
        CAPTURE(names[i]);
        CAPTURE(at);
        CAPTURE(indexed);
        const TempDir copy;
        fs::copy(dir.path(), copy.path(), fs::copy_options::recursive);
        std::string text = whole;
        text[at] = static_cast<char>(text[at] ^ 1);
        write_file(copy.path() / names[i], text);
        if (!indexed) fs::remove(copy.path() / fs::path(names[i]).replace_extension(".idx"));
        const bool in_last_line = i + 1 == names.size() && text.find('\n', at) + 1 == text.size();
        TestJournal journal({.dir = copy.path(), .needed_from = 21});
        if (in_last_line) continue;  // a torn batch: cut off, or seqs that are named
        REQUIRE(journal.ok());
        const Followed got = follow(*journal, 1);
        REQUIRE(got.lost.size() == 1);
        CHECK(got.seqs.size() + (got.lost[0].second - got.lost[0].first) == 20);
        CHECK(got.lost[0].second - got.lost[0].first <= 2);  // a lost newline takes two lines' place, not more
        CHECK_FALSE(journal->damage().empty());
        CHECK(journal.put(commit(21)).kind == BatchOutcome::Kind::durable);
      }
    }
  }
}

TEST_CASE("what recovery needs is refused, whole segments that are gone included") {
  const TempDir dir;
  const auto names = many_segments(dir.path());
  const std::uint64_t third = journal::parse_segment_name(names[2])->first;
  SUBCASE("gone, before") {
    fs::remove(dir.path() / names[1]);
    TestJournal journal({.dir = dir.path(), .needed_from = third});
    REQUIRE(journal.ok());
    CHECK(follow(*journal, 1).lost.size() == 1);
    CHECK(journal->report().damage.size() == 1);
  }
  SUBCASE("gone, beyond") {
    fs::remove(dir.path() / names[2]);
    REQUIRE_FALSE(TestJournal({.dir = dir.path(), .needed_from = third}).ok());
  }
  SUBCASE("the oldest is gone, and it was needed") {
    fs::remove(dir.path() / names[0]);
    REQUIRE_FALSE(TestJournal({.dir = dir.path(), .needed_from = 2}).ok());
    REQUIRE(TestJournal({.dir = dir.path(), .repair = true, .needed_from = 2}).ok());
    CHECK(TestJournal({.dir = dir.path(), .needed_from = 2}).ok());
  }
  SUBCASE("all are gone, and CHECKPOINT says that there were some") {
    for (const std::string& name : names) fs::remove(dir.path() / name);
    REQUIRE_FALSE(TestJournal({.dir = dir.path(), .needed_from = 21, .first_seq = 21, .least_head = 20}).ok());
    TestJournal journal({.dir = dir.path(), .repair = true, .needed_from = 21, .first_seq = 21, .least_head = 20});
    REQUIRE(journal.ok());
    CHECK(journal->head() == 20);
  }
  SUBCASE("a folder in a segment's place") {
    fs::remove(dir.path() / names[1]);
    fs::create_directory(dir.path() / names[1]);
    REQUIRE_FALSE(TestJournal({.dir = dir.path()}).ok());
    CHECK(TestJournal({.dir = dir.path(), .needed_from = third}).ok());
    REQUIRE(TestJournal({.dir = dir.path(), .repair = true}).ok());
    CHECK(TestJournal({.dir = dir.path()}).ok());
    CHECK(count_files(dir.path(), ".damaged.") == 1);
  }
}

TEST_CASE("without indexes an old journal is not read through before it can be used, and gets them") {
  const TempDir dir;
  const auto names = many_segments(dir.path());
  const auto idx = [&](std::size_t i) { return dir.path() / fs::path(names[i]).replace_extension(".idx"); };
  for (std::size_t i = 0; i + 1 < names.size(); ++i) fs::remove(idx(i));
  std::string text = *store::read_file(dir.path() / names[1]);  // nobody has read this when the journal is open
  text[text.size() / 2] ^= 1;
  write_file(dir.path() / names[1], text);
  std::promise<JournalCheck> done;
  TestJournal journal({.dir = dir.path(), .needed_from = 21, .on_check = [&](const JournalCheck& check) {
                         if (check.done()) done.set_value(check);
                       }});
  REQUIRE(journal.ok());
  CHECK(journal->report().damage.empty());
  CHECK(journal->head() == 20);
  CHECK(done.get_future().get().indexes_made == names.size() - 2);
  for (std::size_t i = 0; i + 1 < names.size(); ++i) CHECK(fs::exists(idx(i)) == (i != 1));
  CHECK(journal->damage().size() == 1);
  CHECK(journal->check().done());
}

TEST_CASE("torn batches go with their segment, and with retention") {
  const TempDir dir;
  const auto names = many_segments(dir.path());
  write_file(dir.path() / (names[0] + ".torn.2026-01-01T00-00-00.000Z"), "half");
  write_file(dir.path() / (names.back() + ".torn.2026-01-01T00-00-00.000Z"), "half");
  {
    TestJournal journal({.dir = dir.path(), .max_bytes = 1});
    REQUIRE(journal.ok());
    CHECK(count_files(dir.path(), ".torn.") == 2);
    journal->release(20, 0);
    CHECK(count_files(dir.path(), ".torn.") == 1);
  }
  fs::last_write_time(dir.path() / (names.back() + ".torn.2026-01-01T00-00-00.000Z"),
                      fs::file_time_type::clock::now() - std::chrono::hours(3));
  REQUIRE(TestJournal({.dir = dir.path(), .torn_kept_ms = 3'600'000}).ok());
  CHECK(count_files(dir.path(), ".torn.") == 0);
}

TEST_CASE("a reader whose segment retention takes is told that it is gone, never anything else") {
  const TempDir dir;
  TestJournal journal({.dir = dir.path(), .segment_bytes = 200, .max_bytes = 1});
  constexpr std::uint64_t last = 600;
  for (std::uint64_t seq = 1; seq <= last; ++seq) journal.put(commit(seq));
  std::atomic<bool> over = false;
  std::vector<std::thread> readers;
  std::atomic<int> wrong = 0;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&] {
      while (!over) {
        const std::uint64_t from = journal->oldest();
        const auto read = journal->each_event(from, 1, [](std::uint64_t, std::string_view) {});
        const bool gap = !read && read.error().code == Code::bad_cursor && journal->oldest() > from;
        if (!gap && (!read || read->lost)) ++wrong;
      }
    });
  }
  for (std::uint64_t seq = 1; seq <= last; ++seq) journal->release(seq, 0);
  over = true;
  for (std::thread& reader : readers) reader.join();
  CHECK(wrong == 0);
  CHECK(journal->damage().empty());
  CHECK(journal->oldest() > last - 10);
}

TEST_CASE("a sealed segment that was cut is damage, not a torn batch") {
  const TempDir dir;
  const auto names = many_segments(dir.path());
  const fs::path victim = dir.path() / names[1];
  const std::string text = *store::read_file(victim);
  write_file(victim, text.substr(0, text.size() - 5));
  TestJournal refused({.dir = dir.path()});
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.problem().detail.contains(names[1]));
  TestJournal repaired({.dir = dir.path(), .repair = true});
  REQUIRE(repaired.ok());
  CHECK(read_all(*repaired, 1).size() < 20);
}

TEST_CASE("a crash between making a segment and writing to it") {
  const TempDir dir;
  {
    TestJournal journal({.dir = dir.path()});
    for (std::uint64_t seq = 1; seq <= 5; ++seq) journal.put(commit(seq));
  }
  SUBCASE("rolled") {
    write_file(dir.path() / "00000000000000000006.jsonl", "");
    TestJournal journal({.dir = dir.path()});
    REQUIRE(journal.ok());
    CHECK(journal->head() == 5);
    CHECK(journal.put(commit(6)).kind == BatchOutcome::Kind::durable);
    CHECK(read_all(*journal, 1).size() == 6);
  }
  SUBCASE("overriding, its mark torn: nobody was told what became of the batch") {
    write_file(dir.path() / "00000000000000000005.jsonl", "0011");
    TestJournal journal({.dir = dir.path()});
    REQUIRE(journal.ok());
    CHECK(journal->head() == 4);
    CHECK(journal.put(commit(5, 1, "new")).kind == BatchOutcome::Kind::durable);
    CHECK(read_all(*journal, 1).at(5) == event_json(5, "new"));
  }
  SUBCASE("an override of the whole") {
    write_file(dir.path() / "00000000000000000001-1.jsonl", "");
    TestJournal journal({.dir = dir.path()});
    REQUIRE(journal.ok());
    CHECK(journal->head() == 0);
    CHECK(segments(dir.path()) == std::vector<std::string>{"00000000000000000001-1.jsonl"});
  }
}

TEST_CASE("a journal that ends before what files were made of: named, and with --repair its seqs are not given again") {
  const TempDir dir;
  three_batches(dir.path());
  {
    const TestJournal refused({.dir = dir.path(), .least_head = 9});
    REQUIRE_FALSE(refused.ok());
  }
  std::string epoch;
  {
    TestJournal journal({.dir = dir.path(), .repair = true, .least_head = 9});
    REQUIRE(journal.ok());
    CHECK(journal->head() == 9);
    CHECK_FALSE(journal->report().repairs.empty());
    CHECK(journal.put(commit(10)).kind == BatchOutcome::Kind::durable);
    epoch = journal->epoch();
  }
  TestJournal again({.dir = dir.path(), .least_head = 10});
  REQUIRE(again.ok());
  CHECK(again->epoch() == epoch);
  CHECK(again->head() == 10);
  CHECK(again->report().repairs.empty());
  CHECK(read_all(*again, 1).size() == 6);
}

}  // namespace
}  // namespace sessiond::journal
