// Zeros behind the last line: they are the journal's end, whatever stops it, and nothing depends on them.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "store/clock.hpp"
#include "tests/unit/store/journal/journal_fixture.hpp"

namespace sessiond::journal {
namespace {

using namespace journal_test;

const std::string segment_file = "00000000000000000001.jsonl";
const std::string kilobyte(1000, 'k');

std::string bytes_of(const fs::path& path) { return *store::read_file(path); }
bool has_zeros(const fs::path& path) { return bytes_of(path).contains('\0'); }

// The journal's thread writes zeros after it has told of a batch, when no other waits: at last half as many as it has
// appended bytes, or more.
bool gets_zeros(const fs::path& path) {
  const auto enough = [&path] {
    const std::string bytes = bytes_of(path);
    const std::size_t end = bytes.find('\0');
    return end != std::string::npos && bytes.size() - end > end / 2;
  };
  for (const std::int64_t until = store::steady_ms() + 20'000; !enough() && store::steady_ms() < until;)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return enough();
}

// The segments of a journal that was killed when it had `lines` events of 1 kB each and zeros behind them.
void killed_journal(const fs::path& dir, std::uint64_t lines = 40) {
  const TempDir running;
  TestJournal journal({.dir = running.path()});
  for (std::uint64_t seq = 1; seq <= lines; ++seq) journal.put(commit(seq, 1, kilobyte));
  REQUIRE(gets_zeros(running.path() / segment_file));
  fs::copy(running.path(), dir, fs::copy_options::recursive);
  REQUIRE(has_zeros(dir / segment_file));
}

// The line of an event, as the journal writes it.
std::string line_of(std::uint64_t seq, std::string_view text) {
  const TempDir dir;
  {
    TestJournal journal({.dir = dir.path(), .first_seq = seq});
    journal.put(commit(seq, 1, text));
  }
  return bytes_of(dir.path() / segments(dir.path()).front());
}

TEST_CASE("lines overwrite zeros; a clean stop leaves none") {
  const TempDir dir;
  {
    TestJournal journal({.dir = dir.path()});
    for (std::uint64_t seq = 1; seq <= 40; ++seq) {
      CHECK(journal.put(commit(seq, 1, kilobyte)).kind == BatchOutcome::Kind::durable);
      CHECK(read_all(*journal, seq).size() == 1);
    }
    CHECK(gets_zeros(dir.path() / segment_file));
    std::uint64_t told = 0;
    REQUIRE(journal->each_segment([&](const fs::path&, std::uint64_t bytes) -> Result<void> {
      told = bytes;
      return {};
    }));
    CHECK(told == bytes_of(dir.path() / segment_file).find('\0'));
  }
  CHECK_FALSE(has_zeros(dir.path() / segment_file));
  const TestJournal again({.dir = dir.path()});
  CHECK(again.ok());
}

TEST_CASE("after a kill zeros are the end: no repair, no torn batch, and the next lines stand behind the last") {
  const TempDir dir;
  killed_journal(dir.path());
  {
    TestJournal journal({.dir = dir.path()});
    REQUIRE(journal.ok());
    CHECK(journal->report().repairs.empty());
    CHECK(journal->head() == 40);
    CHECK_FALSE(has_zeros(dir.path() / segment_file));
    CHECK(journal.put(commit(41)).kind == BatchOutcome::Kind::durable);
  }
  CHECK(count_files(dir.path(), ".torn.") == 0);
  TestJournal again({.dir = dir.path()});
  CHECK(read_all(*again, 1).size() == 41);
}

TEST_CASE("a batch of which any pages are missing is torn, never damage, and none of it comes back") {
  constexpr std::size_t page = 4096;
  const TempDir dir;
  killed_journal(dir.path());
  const std::string zeroed = bytes_of(dir.path() / segment_file);
  const std::size_t end = zeroed.find('\0');
  const std::string line = line_of(41, std::string(4 * page, 'l'));
  REQUIRE(end + line.size() < zeroed.size());
  const std::size_t pages = (end + line.size() - 1) / page - end / page + 1;
  for (std::size_t kept = 0; kept < (std::size_t{1} << pages); ++kept) {
    CAPTURE(kept);
    std::string text = zeroed;
    for (std::size_t at = 0; at < line.size(); ++at)
      if (((kept >> ((end + at) / page - end / page)) & 1U) != 0) text[end + at] = line[at];
    const TempDir cut;
    fs::copy(dir.path(), cut.path(), fs::copy_options::recursive);
    write_file(cut.path() / segment_file, text);
    const bool whole = kept + 1 == std::size_t{1} << pages;
    {
      TestJournal journal({.dir = cut.path()});
      REQUIRE_MESSAGE(journal.ok(), journal.problem().detail);
      CHECK(journal->head() == (whole ? 41 : 40));
      CHECK(journal->report().repairs.size() == (kept == 0 || whole ? 0 : 1));
      CHECK(journal.put(commit(journal->head() + 1, 1, "short")).kind == BatchOutcome::Kind::durable);
    }
    TestJournal again({.dir = cut.path()});
    REQUIRE(again.ok());
    CHECK(again->report().repairs.empty());
    CHECK(read_all(*again, 40).rbegin()->second == event_json(again->head(), "short"));
  }
}

TEST_CASE("a line that was cut short before zeros is torn at every length") {
  const TempDir dir;
  killed_journal(dir.path());
  const std::string zeroed = bytes_of(dir.path() / segment_file);
  const std::string line = line_of(41, "cut");
  for (std::size_t length = 1; length < line.size(); ++length) {
    CAPTURE(length);
    std::string text = zeroed;
    text.replace(zeroed.find('\0'), length, line, 0, length);
    const TempDir cut;
    fs::copy(dir.path(), cut.path(), fs::copy_options::recursive);
    write_file(cut.path() / segment_file, text);
    TestJournal journal({.dir = cut.path()});
    REQUIRE(journal.ok());
    CHECK(journal->head() == 40);
    CHECK(journal->report().repairs.size() == 1);
    for (const auto& entry : fs::directory_iterator(cut.path()))
      if (entry.path().native().contains(".torn.")) CHECK(bytes_of(entry.path()) == line.substr(0, length));
  }
}

TEST_CASE("damage between good lines before zeros is damage") {
  const TempDir dir;
  killed_journal(dir.path());
  std::string text = bytes_of(dir.path() / segment_file);
  std::fill_n(text.begin() + 2000, 1500, '\0');
  write_file(dir.path() / segment_file, text);
  CHECK_FALSE(TestJournal({.dir = dir.path()}).ok());
  TestJournal journal({.dir = dir.path(), .repair = true});
  REQUIRE(journal.ok());
  CHECK(journal->head() == 40);
}

TEST_CASE("a sealed segment has no zeros; one that a power cut gave them back is read, with its index and without") {
  const TempDir dir;
  {
    TestJournal journal({.dir = dir.path(), .segment_bytes = 50'000});
    for (std::uint64_t seq = 1; seq <= 200; ++seq) journal.put(commit(seq, 1, kilobyte));
    const auto names = segments(dir.path());
    for (std::size_t i = 0; i + 1 < names.size(); ++i) CHECK_FALSE(has_zeros(dir.path() / names[i]));
  }
  const auto names = segments(dir.path());
  REQUIRE(names.size() >= 4);
  for (const std::string& name : names) fs::resize_file(dir.path() / name, fs::file_size(dir.path() / name) + 10'000);
  for (const bool indexed : {true, false}) {
    if (!indexed)
      for (const std::string& name : names) fs::remove(dir.path() / fs::path(name).replace_extension(".idx"));
    for (const std::uint64_t needed_from : {1U, 201U}) {
      TestJournal journal({.dir = dir.path(), .needed_from = needed_from});
      REQUIRE(journal.ok());
      CHECK(journal->report().repairs.empty());
      CHECK(read_all(*journal, 1, 100'000).size() == 200);
      CHECK(journal->damage().empty());
    }
  }
}

TEST_CASE("a disk without room for zeros takes lines as before, and is not asked again in this segment") {
  const TempDir dir;
  std::atomic<int> asked = 0;
  auto ops = std::make_shared<JournalFileOps>();
  ops->write_zeros = [&](int fd, std::uint64_t offset, std::uint64_t end) {
    ++asked;
    const std::string some((end - offset) / 2, '\0');
    static_cast<void>(!::pwrite(fd, some.data(), some.size(), static_cast<off_t>(offset)));
    return false;
  };
  TestJournal journal({.dir = dir.path(), .file_ops = ops});
  std::uint64_t last = 0;
  const auto put = [&] { REQUIRE(journal.put(commit(++last, 1, kilobyte)).kind == BatchOutcome::Kind::durable); };
  while (asked == 0 && last < 10'000) put();  // it is asked when no commit waits
  for (int more = 0; more < 60; ++more) put();
  CHECK(asked == 1);
  CHECK_FALSE(has_zeros(dir.path() / segment_file));
  CHECK(read_all(*journal, 1).size() == last);
}

TEST_CASE("zeros are bounded by the segment's size and are few while a segment has few lines") {
  const TempDir dir;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> written;
  auto ops = std::make_shared<JournalFileOps>();
  ops->write_zeros = [&](int fd, std::uint64_t offset, std::uint64_t end) {
    written.emplace_back(offset, end);
    return write_zeros(fd, offset, end);
  };
  constexpr std::uint64_t segment_bytes = 1'200'000;
  {
    TestJournal journal({.dir = dir.path(), .segment_bytes = segment_bytes, .file_ops = ops});
    for (std::uint64_t seq = 1; seq <= 10; ++seq) journal.put(commit(seq, 1, kilobyte));
    CHECK(written.empty());
    for (std::uint64_t seq = 11; seq <= 300; ++seq) journal.put(commit(seq, 1, std::string(4000, 'k')));
  }
  REQUIRE(written.size() > 4);
  for (const auto& [from, to] : written) {
    CHECK(to - from <= std::min<std::uint64_t>(from, 256 << 10));
    CHECK(to <= segment_bytes);
  }
}

}  // namespace
}  // namespace sessiond::journal
