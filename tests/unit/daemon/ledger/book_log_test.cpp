#include "daemon/ledger/book_log.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <thread>

#include "store/fault_point.hpp"
#include "store/files.hpp"
#include "store/json/crc.hpp"
#include "store/json/raw_json.hpp"
#include "tests/unit/store/seal/keys_fixture.hpp"
#include "tests/unit/temp_dir.hpp"

using namespace sessiond;
using namespace sessiond::ledger;
using sessiond::testing::TempDir;

namespace {

using LogPicture = std::map<std::string, std::string>;  // the records of a log; "" has its ending

decide::BookRecord log_record(std::string key, const std::string& value = {}, std::uint64_t order = 0) {
  if (value.empty()) return {.key = std::move(key)};
  return {.key = std::move(key), .value = std::make_shared<const std::string>(value), .order = order};
}

decide::BookChanges log_group(std::uint64_t end, std::vector<decide::BookRecord> records, bool is_whole = false) {
  return {.is_whole = is_whole,
          .records = std::move(records),
          .ending = fmt::format(R"({{"end":{},"open":{}}})", end, end % 3)};
}

LogPicture log_picture(const BookLog::Content& content) {
  LogPicture picture{{"", content.ending}};
  for (const decide::BookRecord& each : content.records)
    picture[each.key] = fmt::format("{} {}", each.order, *each.value);
  return picture;
}

LogPicture read_log(const std::filesystem::path& file, std::uint64_t least = 0) {
  auto content = BookLog(file).read(least);
  REQUIRE_MESSAGE(content, content.error().detail);
  return log_picture(*content);
}

// Writes the groups one after the other. `seen` gets the size of the file and the picture after each.
void write_groups(BookLog& log, const std::filesystem::path& file,
                  const std::function<void(std::uint64_t, LogPicture)>& seen) {
  const std::vector<decide::BookChanges> groups{
      log_group(3, {log_record("s k", R"({"fence":1})"), log_record("r k 1", R"({"text":"one"})", 2)}, true),
      log_group(5, {log_record("s k", R"({"fence":2})"), log_record("r k 2", "{\"text\":\n\"two\"}", 5)}),
      log_group(6, {}), log_group(9, {log_record("r k 1"), log_record("s other", "{}"), log_record("never there")}),
      log_group(12, {log_record("s other", "[1e400]"), log_record("s other"), log_record("r k 3", "{}", 12)})};
  for (const decide::BookChanges& each : groups) {
    REQUIRE(log.write(each));
    seen(std::filesystem::file_size(file), read_log(file));
  }
}

std::string log_bytes(const std::filesystem::path& file) { return store::read_file(file).value(); }

}  // namespace

TEST_CASE("a log has the last record of each key") {
  const TempDir dir;
  const auto file = dir / "main.log";
  BookLog log(file);
  CHECK(log.read().error().code == Code::not_found);
  LogPicture last;
  write_groups(log, file, [&last](std::uint64_t, LogPicture now) { last = std::move(now); });
  CHECK(last == LogPicture{{"", R"({"end":12,"open":0})"},
                           {"r k 2", "5 {\"text\": \"two\"}"},
                           {"r k 3", "12 {}"},
                           {"s k", R"(0 {"fence":2})"}});
  BookLog again(file);  // goes on where the other one was
  REQUIRE(again.read());
  REQUIRE(again.write(log_group(13, {log_record("s k")})));
  CHECK(!read_log(file).contains("s k"));
  CHECK(log_bytes(file).substr(8, 14) == " {\"format\":2}\n");
}

TEST_CASE("a log that is cut anywhere ends with its last whole group, and goes on from there") {
  const TempDir dir;
  const auto file = dir / "main.log";
  BookLog log(file);
  std::map<std::uint64_t, LogPicture> after;  // by the size of the file
  write_groups(log, file, [&after](std::uint64_t size, LogPicture now) { after[size] = std::move(now); });
  const std::string whole = log_bytes(file);
  const std::uint64_t first = after.begin()->first;
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    const auto cut = dir.write("cut.log", whole.substr(0, size));
    BookLog rest(cut);
    auto content = rest.read();
    if (size < first) {  // the first group comes with the file
      CHECK(content.error().code == Code::degraded);
      continue;
    }
    REQUIRE(content);
    CHECK(log_picture(*content) == std::prev(after.upper_bound(size))->second);
    CHECK(std::filesystem::file_size(cut) == size);
    REQUIRE(rest.write(log_group(40, {log_record("s new", "1")})));
    LogPicture wanted = log_picture(*content);
    wanted["s new"] = "0 1";
    wanted[""] = R"({"end":40,"open":1})";
    CHECK(read_log(cut) == wanted);
  }
}

TEST_CASE("a flipped bit is damage, or takes the last group away, or two of them, which `least` notices") {
  const TempDir dir;
  const auto file = dir / "main.log";
  BookLog log(file);
  LogPicture last;
  LogPicture before;
  LogPicture older;
  std::uint64_t begin_of_last = 0;
  std::uint64_t size_before = 0;
  write_groups(log, file, [&](std::uint64_t size, LogPicture now) {
    older = std::exchange(before, std::exchange(last, std::move(now)));
    begin_of_last = std::exchange(size_before, size);
  });
  const std::string whole = log_bytes(file);
  const std::uint64_t ending_before = whole.rfind('\n', begin_of_last - 2);  // without it, two groups are one
  for (std::size_t at = 0; at < whole.size(); ++at) {
    CAPTURE(at);
    std::string harmed = whole;
    harmed[at] = static_cast<char>(harmed[at] ^ (1 << (at % 7)));
    const auto bad = dir.write("bad.log", harmed);
    CHECK(BookLog(bad).read(12).error().code == Code::degraded);
    const auto content = BookLog(bad).read();
    if (!content) {
      CHECK(content.error().code == Code::degraded);
      continue;
    }
    CHECK(at >= ending_before);
    CHECK(log_picture(*content) == (at < begin_of_last ? older : before));
  }
}

TEST_CASE("a whole group leaves the last record of each key, and no line of the others") {
  const TempDir dir;
  const auto file = dir / "main.log";
  BookLog log(file);
  REQUIRE(log.write(log_group(1,
                              {log_record("a", R"("a secret")"), log_record("b", "1"), log_record("c", R"("was")"),
                               log_record("a"), log_record("c", R"("is")")},
                              true)));
  for (const std::string_view said : {"secret", "was"}) CHECK_FALSE(log_bytes(file).contains(said));
  CHECK(read_log(file) == LogPicture{{"", R"({"end":1,"open":1})"}, {"b", "0 1"}, {"c", R"(0 "is")"}});
  REQUIRE(log.write(log_group(2, {log_record("a"), log_record("c")})));
  CHECK(read_log(file) == LogPicture{{"", R"({"end":2,"open":2})"}, {"b", "0 1"}});
}

TEST_CASE("a last group of which a power cut took a part does not count; one before is damage") {
  const TempDir dir;
  const auto file = dir / "main.log";
  BookLog log(file);
  REQUIRE(log.write(log_group(1, {log_record("s a", "1")}, true)));
  const std::string value = "\"" + std::string(500, 'x') + "\"";
  const auto second = std::filesystem::file_size(file);
  REQUIRE(log.write(log_group(2, {log_record("s b", value), log_record("s c", value), log_record("s d", value)})));
  const auto third = std::filesystem::file_size(file);
  REQUIRE(log.write(log_group(3, {log_record("s e", value), log_record("s f", value), log_record("s g", value)})));
  const std::string whole = log_bytes(file);
  const auto without = [&](std::uint64_t at) {
    return dir.write("harmed.log", std::string(whole).replace(at + 600, 512, 512, '\0'));
  };
  auto harmed = without(third);
  CHECK(BookLog(harmed).read(3).error().code == Code::degraded);
  BookLog rest(harmed);
  const auto content = rest.read(2);
  REQUIRE(content);
  CHECK(log_picture(*content) == read_log(dir.write("cut.log", whole.substr(0, third))));
  REQUIRE(rest.write(log_group(4, {log_record("s a", "4")})));
  CHECK(log_bytes(harmed).starts_with(whole.substr(0, third)));
  CHECK(std::filesystem::file_size(harmed) < third + 200);
  CHECK(read_log(harmed, 4)["s a"] == "0 4");
  harmed = without(second);
  for (const std::uint64_t least : {0U, 1U, 2U}) CHECK(BookLog(harmed).read(least).error().code == Code::degraded);
}

TEST_CASE("a log is read while another thread adds to it") {
  const TempDir dir(TempDir::On::memory);
  const auto file = dir / "main.log";
  BookLog log(file);
  const std::string value = "\"" + std::string(20'000, 'x') + "\"";
  REQUIRE(log.write(log_group(1, {}, true)));
  std::atomic<bool> is_done = false;
  std::thread writer([&log, &value, &is_done] {
    for (std::uint64_t end = 2; end <= 60; ++end)
      static_cast<void>(log.write(log_group(end, {log_record(fmt::format("r k {}", end), value)})));
    is_done = true;
  });
  std::uint64_t last = 0;
  int failed = 0;
  while (!is_done) {
    const auto content = BookLog(file).read(last);
    if (!content) ++failed;
    if (content) last = static_cast<std::uint64_t>(json::int_at(content->ending, "end").value_or(0));
  }
  writer.join();
  CHECK(failed == 0);
  CHECK(read_log(file, 60).size() == 60);
}

TEST_CASE("dead lines go when they are more than the others and a mebibyte") {
  const TempDir dir(TempDir::On::memory);
  const auto file = dir / "main.log";
  BookLog log(file);
  REQUIRE(log.write(log_group(1, {log_record("s a", "1"), log_record("s z", "2")}, true)));
  const std::string value = "\"" + std::string(1000, 'x') + "\"";
  std::uint64_t greatest = 0;
  for (std::uint64_t end = 2; end < 2500; ++end) {
    REQUIRE(log.write(log_group(end, {log_record("s k", value)})));
    greatest = std::max<std::uint64_t>(greatest, std::filesystem::file_size(file));
  }
  CHECK(greatest > (1U << 20));
  CHECK(greatest < (1U << 20) + 5'000);
  CHECK(read_log(file, 2499) ==
        LogPicture{{"", R"({"end":2499,"open":0})"}, {"s a", "0 1"}, {"s k", "0 " + value}, {"s z", "0 2"}});
}

TEST_CASE("what people have taken back leaves the file with the same write, or with the next one") {
  const TempDir dir;
  const auto file = dir / "main.log";
  BookLog log(file);
  REQUIRE(log.write(log_group(1, {log_record("t 1", R"("a secret")"), log_record("t 2", R"("a word")")}, true)));
  auto purge = log_group(2, {log_record("t 1")});
  purge.forgets = true;
  REQUIRE(log.write(purge));
  CHECK_FALSE(log_bytes(file).contains("secret"));
  CHECK(read_log(file) == LogPicture{{"", R"({"end":2,"open":2})"}, {"t 2", R"(0 "a word")"}});
  REQUIRE(log.write(log_group(3, {log_record("t 3", R"("another secret")")})));
  // As after a kill between the group and the compaction.
  purge = log_group(4, {log_record("t 3")});
  purge.ending = R"({"end":4,"open":1,"forgets":true})";
  REQUIRE(log.write(purge));
  CHECK(log_bytes(file).contains("secret"));
  BookLog again(file);
  REQUIRE(again.read());
  REQUIRE(again.write(log_group(5, {})));
  CHECK_FALSE(log_bytes(file).contains("secret"));
}

TEST_CASE("a compaction that fails is due until it is done, and adds nothing") {
  const TempDir dir;
  const auto file = dir / "main.log";
  BookLog log(file);
  REQUIRE(log.write(log_group(1, {log_record("t 1", R"("a secret")")}, true)));
  auto purge = log_group(2, {log_record("t 1")});
  purge.forgets = true;
  purge.ending = R"({"end":2,"open":2,"forgets":true})";
  {
    const int next = ::dup(0);
    ::close(next);
    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
    rlimit one = before;
    one.rlim_cur = static_cast<rlim_t>(next) + 1;  // enough to add to the log, and not to copy it
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &one) == 0);
    const auto written = log.write(purge);
    const auto size = store::stat_of(file)->st_size;
    const auto again = log.write(log_group(2, {}));
    const auto size_then = store::stat_of(file)->st_size;
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
    CHECK(written);
    CHECK(again);
    CHECK(size == size_then);
  }
  CHECK(log.is_rewrite_due());
  CHECK_FALSE(log.is_lost());
  CHECK(log_bytes(file).contains("secret"));
  CHECK(BookLog::open_count(file).value() == 2U);
  BookLog next(file);
  REQUIRE(next.read());
  CHECK(next.is_rewrite_due());
  REQUIRE(log.write(log_group(2, {})));
  CHECK_FALSE(log.is_rewrite_due());
  CHECK_FALSE(log_bytes(file).contains("secret"));
}

TEST_CASE("a line that was damaged since is copied by no compaction: the log is written whole again") {
  const TempDir dir;
  const auto file = dir / "main.log";
  BookLog log(file);
  REQUIRE(log.write(log_group(1, {log_record("s a", R"("as it was")")}, true)));
  std::string bytes = log_bytes(file);
  bytes.replace(bytes.find("as it was"), 2, "at");
  REQUIRE(std::ofstream(file, std::ios::binary | std::ios::in).write(bytes.data(), std::ssize(bytes)).good());
  auto purge = log_group(2, {log_record("s b", "2")});
  purge.forgets = true;
  static_cast<void>(log.write(purge));
  CHECK(log.is_lost());
  CHECK_FALSE(log.write(log_group(3, {})));
  REQUIRE(log.write(log_group(3, {log_record("s a", R"("as it is")"), log_record("s b", "2")}, true)));
  CHECK_FALSE(log.is_lost());
  CHECK(read_log(file) == LogPicture{{"", R"({"end":3,"open":0})"}, {"s a", R"(0 "as it is")"}, {"s b", "0 2"}});
}

TEST_CASE("a log that somebody took away, cut or exchanged is written whole again") {
  const TempDir dir;
  const auto file = dir / "main.log";
  const std::vector<std::function<void()>> harms{[&] { std::filesystem::remove(file); },
                                                 [&] { std::filesystem::resize_file(file, 50); },
                                                 [&] {
                                                   std::filesystem::copy_file(file, dir / "copy");
                                                   std::filesystem::rename(dir / "copy", file);
                                                 }};
  for (const auto& harm : harms) {
    BookLog log(file);
    REQUIRE(log.write(log_group(1, {log_record("s a", "1")}, true)));
    harm();
    CHECK_FALSE(log.write(log_group(2, {log_record("s b", "2")})));
    CHECK(log.is_lost());
    CHECK_FALSE(log.write(log_group(2, {log_record("s b", "2")})));
    REQUIRE(log.write(log_group(2, {log_record("s a", "1"), log_record("s b", "2")}, true)));
    CHECK_FALSE(log.is_lost());
    CHECK(read_log(file) == LogPicture{{"", R"({"end":2,"open":2})"}, {"s a", "0 1"}, {"s b", "0 2"}});
  }
}

TEST_CASE("the end of a log tells how much of its book is open") {
  const TempDir dir;
  const auto file = dir / "main.log";
  CHECK(BookLog::open_count(file).error().code == Code::not_found);
  BookLog log(file);
  REQUIRE(log.write(log_group(5, {log_record("s a", "\"" + std::string(10'000, 'x') + "\"")}, true)));
  CHECK(BookLog::open_count(file).value() == 2U);
  REQUIRE(log.write(log_group(6, {})));
  CHECK(BookLog::open_count(file).value() == 0U);
  const std::string whole = log_bytes(file);
  for (const std::size_t size : {std::size_t{0}, std::size_t{5}, whole.size() - 1, whole.size() - 20})
    CHECK(!BookLog::open_count(dir.write("cut.log", whole.substr(0, size))).value());
}

TEST_CASE("sealed, a log tells nothing, and opens in its own place only") {
  const TempDir dir;
  std::filesystem::create_directory(dir / "journal");
  const auto file = dir / "main.log";
  BookLog log(file);
  REQUIRE(log.write(log_group(1, {log_record("s old", R"("of before")")}, true)));
  const seal_test::KeysInUse keys(dir.path());
  REQUIRE(log.write(log_group(2, {log_record("s k", R"("a word")")})));
  for (const std::string_view said : {"of before", "word"}) CHECK_FALSE(log_bytes(file).contains(said));
  BookLog again(file);
  REQUIRE(again.read());
  REQUIRE(again.write(log_group(3, {log_record("s l", R"("another")")})));
  for (const std::string_view said : {"of before", "word", "another"}) CHECK_FALSE(log_bytes(file).contains(said));
  const LogPicture wanted{{"", R"({"end":3,"open":0})"},
                          {"s k", R"(0 "a word")"},
                          {"s l", R"(0 "another")"},
                          {"s old", R"(0 "of before")"}};
  CHECK(read_log(file) == wanted);
  CHECK(BookLog::open_count(file).value() == 0U);
  std::filesystem::rename(file, dir / "other.log");
  CHECK(BookLog(dir / "other.log").read().error().code == Code::degraded);
}

TEST_CASE("a last group that does not open is damage, and is not cut off") {
  const TempDir dir;
  std::filesystem::create_directory(dir / "journal");
  const auto file = dir / "main.log";
  BookLog log(file);
  {
    const seal_test::KeysInUse keys(dir.path());
    REQUIRE(log.write(log_group(1, {log_record("s a", "1")}, true)));
  }
  const seal_test::KeysInUse keys(dir.path(), "two-of-2");
  const std::string other = log_bytes(file);
  std::string ending = other.substr(other.rfind('\n', other.size() - 2) + 1);
  const auto seal_at = ending.size() - 20;
  ending[seal_at] = ending[seal_at] == 'A' ? 'B' : 'A';
  ending = json::crc_text(std::string_view(ending).substr(9, ending.size() - 10)) + ending.substr(8);
  const std::string harmed = other + ending;
  const auto there = dir.write("main.log", harmed);
  const auto read = BookLog(there).read();
  REQUIRE_FALSE(read);
  CHECK(read.error().code == Code::degraded);
  CHECK(read.error().detail.contains("does not open"));
  CHECK(log_bytes(there) == harmed);
}

TEST_CASE("a log that was never written is not due, sealed or not") {
  const TempDir dir;
  std::filesystem::create_directory(dir / "journal");
  CHECK_FALSE(BookLog(dir / "main.log").is_rewrite_due());
  const seal_test::KeysInUse keys(dir.path());
  CHECK_FALSE(BookLog(dir / "main.log").is_rewrite_due());
}

TEST_CASE("the end of a log that is to be written anew says that its agent is to be read") {
  const TempDir dir;
  const auto file = dir / "main.log";
  BookLog log(file);
  REQUIRE(log.write(log_group(3, {log_record("s a", "1")}, true)));
  CHECK(BookLog::open_count(file).value() == 0U);
  auto left = log_group(6, {});
  left.ending = R"({"end":6,"open":0,"forgets":true})";  // as a kill before the compaction leaves it
  REQUIRE(log.write(left));
  CHECK(BookLog::open_count(file).value() == 1U);
}

TEST_CASE("after a change of the key a log is sealed with the new one, by whoever writes it next") {
  const TempDir dir;
  std::filesystem::create_directory(dir / "journal");
  for (const bool is_read_again : {false, true}) {
    const auto file = dir / "main.log";
    BookLog log(file);
    {
      const seal_test::KeysInUse keys(dir.path());
      REQUIRE(log.write(log_group(1, {log_record("s a", R"("a word")")}, true)));
      CHECK(log_bytes(file).contains(R"("k":"one")"));
    }
    const seal_test::KeysInUse keys(dir.path(), "two-of-2");
    if (is_read_again) REQUIRE(log.read());
    REQUIRE(log.write(log_group(2, {log_record("s b", R"("another")")})));
    CHECK_FALSE(log_bytes(file).contains(R"("k":"one")"));
    CHECK(read_log(file) ==
          LogPicture{{"", R"({"end":2,"open":2})"}, {"s a", R"(0 "a word")"}, {"s b", R"(0 "another")"}});
  }
}

TEST_CASE("a log of 10 000 records takes changes without being written again") {
  const TempDir dir;
  const auto file = dir / "main.log";
  BookLog log(file);
  std::vector<decide::BookRecord> records;
  for (int i = 0; i < 10'000; ++i)
    records.push_back(log_record(fmt::format("r k {}", i), "\"" + std::string(500, 'x') + "\""));
  REQUIRE(log.write(log_group(1, std::move(records), true)));
  const auto size = std::filesystem::file_size(file);
  REQUIRE(log.write(log_group(2, {log_record("r k 77", "1")})));
  CHECK(std::filesystem::file_size(file) < size + 100);
  CHECK(read_log(file).size() == 10'001);
  CHECK(read_log(file)["r k 77"] == "0 1");
}

#ifdef SESSIOND_FAULT_POINTS

namespace {

decide::BookChanges group_of_walk(std::uint64_t end) {
  auto changes = log_group(
      end, {log_record(fmt::format("s {}", end % 7), fmt::format("{}", end)), log_record(fmt::format("r {}", end % 3))},
      end == 1);
  changes.forgets = end % 5 == 0;
  return changes;
}

// Writes groups, and notes the number of each that is acknowledged in <file>.acknowledged.
void walk_log(const std::filesystem::path& file) {
  BookLog log(file);
  for (std::uint64_t end = 1; end < 20; ++end) {
    if (!log.write(group_of_walk(end))) std::_Exit(3);
    if (!store::replace_file(file.native() + ".acknowledged", std::to_string(end))) std::_Exit(4);
  }
  std::_Exit(0);
}

}  // namespace

TEST_CASE("child of a kill of a log" * doctest::skip()) {
  if (const char* const dir = std::getenv("SESSIOND_TEST_DIR")) walk_log(std::filesystem::path(dir) / "main.log");
}

TEST_CASE("a kill at any step of a write or a compaction loses no group that was acknowledged, and halves none") {
  std::map<std::uint64_t, LogPicture> after;  // by the end of the last group
  const TempDir whole;
  BookLog log(whole / "main.log");
  after[0] = {};
  for (std::uint64_t end = 1; end < 20; ++end) {
    REQUIRE(log.write(group_of_walk(end)));
    after[end] = read_log(whole / "main.log");
  }
  for (const std::string point : {"book.appended", "book.ended", "book.compacted", "book.renamed"}) {
    for (const int nth : {1, 2, 4}) {
      CAPTURE(point);
      CAPTURE(nth);
      const TempDir dir;
      const pid_t child = ::fork();
      REQUIRE(child >= 0);
      if (child == 0) {
        ::setenv("SESSIOND_FAULT", fmt::format("{}:{}=kill", point, nth).c_str(), 1);
        ::setenv("SESSIOND_TEST_DIR", dir.path().c_str(), 1);
        ::execl("/proc/self/exe", "unit_daemon_ledger", "-tc=child of a kill of a log", "--no-skip",
                static_cast<char*>(nullptr));
        ::_exit(127);
      }
      int status = 0;
      REQUIRE(::waitpid(child, &status, 0) == child);
      REQUIRE(WIFSIGNALED(status));
      const auto noted = store::read_file(dir / "main.log.acknowledged");
      const std::uint64_t acknowledged = noted ? std::stoull(*noted) : 0;
      BookLog again(dir / "main.log");
      const auto content = again.read(acknowledged);
      const LogPicture found = content ? log_picture(*content) : LogPicture{};
      CHECK((found == after[acknowledged] || found == after[acknowledged + 1]));
      const std::uint64_t next = found == after[acknowledged] ? acknowledged + 1 : acknowledged + 2;
      REQUIRE(again.write(group_of_walk(next)));
      CHECK(read_log(dir / "main.log") == after[next]);
    }
  }
}

#endif
