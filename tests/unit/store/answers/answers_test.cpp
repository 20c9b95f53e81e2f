#include "store/answers/answers.hpp"
#include "store/json/crc.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "store/json/raw_json.hpp"
#include "tests/unit/store/journal/journal_fixture.hpp"

namespace sessiond::answers {
namespace {

using journal_test::TempDir;
using journal_test::write_file;
namespace fs = std::filesystem;

constexpr std::int64_t start = 1'795'298'400'000;

Answer answer(int n, std::string body = "{}") {
  return {.scope = digest(fmt::format("scope {}", n)),
          .request = digest(fmt::format("request {}", n)),
          .time = start + n,
          .status = 201,
          .headers = R"({"ETag":"r1"})",
          .body = std::move(body)};
}

std::unique_ptr<AnswerStore> open_store(const AnswerStore::Options& options) {
  auto store = AnswerStore::open(options);
  REQUIRE_MESSAGE(store.has_value(), store.error().detail);
  return std::move(*store);
}

std::vector<fs::path> files(const fs::path& dir, std::string_view extension) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(dir))
    if (entry.path().extension() == extension) found.push_back(entry.path());
  std::ranges::sort(found);
  return found;
}

TEST_CASE("digest is the beginning of SHA-256") {
  const Digest empty = digest("");
  CHECK(empty[0] == 0xe3);
  CHECK(empty[1] == 0xb0);
  CHECK(empty[15] == 0x24);
  CHECK(digest("a") != empty);
}

TEST_CASE("an answer is one line of JSON and comes back to the byte") {
  Answer one = answer(1, "{\"a\":\"\\ud800 \\n\",\n\t\"b\":1e400,\"c\":\"ü\\u0000\"}");
  const std::string text = to_json(one);
  CHECK(json::check(text).has_value());
  CHECK_FALSE(text.contains('\n'));
  CHECK(text.starts_with(R"({"k":")"));
  CHECK(answer_from_json(text).value() == one);
  one.headers.clear();
  one.body.clear();
  one.status = 403;
  CHECK(answer_from_json(to_json(one)).value() == one);
}

TEST_CASE("what is no answer is refused") {
  const std::string good = to_json(answer(1));
  for (std::size_t size = 0; size < good.size(); ++size)
    CHECK_FALSE(answer_from_json(good.substr(0, size)).has_value());
  for (const char* bad : {"null", "[]", "{}", R"({"k":"00","b":"00","t":1,"s":200,"h":{},"r":""})"})
    CHECK_FALSE(answer_from_json(bad).has_value());
  for (const char* member : {"\"k\"", "\"b\"", "\"t\"", "\"s\"", "\"h\"", "\"r\""}) {
    std::string changed = good;
    changed.replace(changed.find(member), 3, "\"x\"");
    CHECK_FALSE(answer_from_json(changed).has_value());
  }
}

TEST_CASE("put is found at once, kept over a restart once flushed, and not found past the retention") {
  const TempDir dir;
  const AnswerStore::Options options{.dir = dir.path() / "keys", .retention_ms = 1000};
  {
    const auto store = open_store(options);
    CHECK_FALSE(store->find(answer(1).scope, start).has_value());
    store->put(answer(1));
    CHECK(store->find(answer(1).scope, start + 1) == answer(1));
    REQUIRE(store->flush(true).has_value());
    store->put(answer(2));
    CHECK(store->find(answer(2).scope, start + 1) == answer(2));
  }
  const auto store = open_store(options);
  CHECK(store->take_repairs().empty());
  CHECK(store->find(answer(1).scope, start + 1001) == answer(1));
  CHECK_FALSE(store->find(answer(1).scope, start + 1002).has_value());
  CHECK_FALSE(store->find(answer(2).scope, start + 1).has_value());  // it was not flushed
  struct stat status{};
  REQUIRE(::stat(files(options.dir, ".jsonl").at(0).c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  CHECK(files(options.dir, ".jsonl").at(0).filename() == fmt::format("{:020}.jsonl", start + 1));
}

TEST_CASE("putting again is harmless; the newer answer of a scope wins, in one segment and over several") {
  const TempDir dir;
  const AnswerStore::Options options{.dir = dir.path(), .segment_bytes = 500};
  Answer newer = answer(1, "newer");
  newer.time += 1000;
  {
    const auto store = open_store(options);
    for (int i = 0; i < 100; ++i) store->put(answer(1));
    REQUIRE(store->flush(false).has_value());
    CHECK(fs::file_size(files(dir.path(), ".jsonl").at(0)) == json::with_crc(to_json(answer(1))).size() + 1);
    for (int i = 2; i < 30; ++i) store->put(answer(i));
    REQUIRE(store->flush(true).has_value());
    CHECK(files(dir.path(), ".idx").size() >= 5);
    const std::size_t before = files(dir.path(), ".jsonl").size();
    for (int i = 1; i < 30; ++i) store->put(answer(i));
    REQUIRE(store->flush(true).has_value());
    CHECK(files(dir.path(), ".jsonl").size() == before);
    store->put(newer);
    store->put(answer(1));
    CHECK(store->find(newer.scope, start) == newer);
    for (int i = 30; i < 60; ++i) store->put(answer(i));
    REQUIRE(store->flush(true).has_value());
    CHECK(store->find(newer.scope, start) == newer);
  }
  const auto store = open_store(options);
  CHECK(store->find(newer.scope, start) == newer);
  for (int i = 2; i < 60; ++i) CHECK(store->find(answer(i).scope, start) == answer(i));
  for (int i = 60; i < 2000; ++i) CHECK_FALSE(store->find(answer(i).scope, start).has_value());
}

TEST_CASE(
    "a killed process: whatever byte the live segment ends at, whole answers are there and half ones are cut off") {
  const TempDir dir;
  {
    const auto store = open_store({.dir = dir.path()});
    for (int i = 0; i < 3; ++i) store->put(answer(i));
    REQUIRE(store->flush(false).has_value());
  }
  const fs::path file = files(dir.path(), ".jsonl").at(0);
  const std::string text = *store::read_file(file);
  const std::size_t line = json::with_crc(to_json(answer(0))).size() + 1;
  for (std::size_t size = 0; size <= text.size(); ++size) {
    CAPTURE(size);
    write_file(file, text.substr(0, size));
    {
      const auto store = open_store({.dir = dir.path()});
      CHECK(store->take_repairs().size() == (size % line == 0 ? 0 : 1));
      for (int i = 0; i < 3; ++i)
        CHECK(store->find(answer(i).scope, start).has_value() == (size >= static_cast<std::size_t>(i + 1) * line));
      store->put(answer(9));
      REQUIRE(store->flush(false).has_value());
    }
    const auto again = open_store({.dir = dir.path()});
    CHECK(again->take_repairs().empty());
    CHECK(again->find(answer(9).scope, start) == answer(9));
  }
}

void fill(AnswerStore& store, int count) {
  for (int i = 0; i < count; ++i) store.put(answer(i, std::string(100, 'b')));
  REQUIRE(store.flush(true).has_value());
}

TEST_CASE("a damaged or missing index is made again; a damaged line costs itself and is told") {
  const TempDir dir;
  const AnswerStore::Options options{.dir = dir.path(), .segment_bytes = 5000};
  fill(*open_store(options), 200);
  const auto indexes = files(dir.path(), ".idx");
  REQUIRE(indexes.size() >= 4);
  const std::string good = *store::read_file(indexes[1]);
  fs::remove(indexes[0]);
  for (const std::size_t at :
       {std::size_t{0}, std::size_t{9}, std::size_t{17}, std::size_t{30}, good.size() / 2, good.size() - 1}) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x40);
    write_file(indexes[1], bad);
    const auto store = open_store(options);
    CHECK(*store::read_file(indexes[1]) == good);
    for (int i = 0; i < 200; ++i) CHECK(store->find(answer(i).scope, start).has_value());
    CHECK(store->take_repairs().empty());
  }
  for (const std::string& bad :
       {std::string(), std::string("x"), good.substr(0, 64), good + "x", *store::read_file(indexes[2])}) {
    write_file(indexes[1], bad);
    CHECK(open_store(options)->find(answer(199).scope, start).has_value());
    CHECK(*store::read_file(indexes[1]) == good);
  }

  const auto lines = files(dir.path(), ".jsonl");
  for (const fs::path& file : {lines[2], lines.back()}) {
    std::string text = *store::read_file(file);
    text[3] = '\xff';
    write_file(file, text);
  }
  const auto store = open_store(options);
  CHECK(store->take_repairs().size() == 1);  // the live one is read at once, the sealed one when it is asked for
  int found = 0;
  for (int i = 0; i < 200; ++i) found += store->find(answer(i).scope, start).has_value() ? 1 : 0;
  CHECK(found == 198);
  CHECK(store->take_repairs().size() == 1);
  store->put(answer(500));
  REQUIRE(store->flush(true).has_value());
  CHECK(open_store(options)->find(answer(500).scope, start).has_value());
}

TEST_CASE("expiry drops old segments, a quiet live one too in the end") {
  const TempDir dir;
  const AnswerStore::Options options{.dir = dir.path(), .retention_ms = 50, .segment_bytes = 3000};
  const auto store = open_store(options);
  fill(*store, 200);
  const std::size_t all = files(dir.path(), ".jsonl").size();
  store->expire(start + 40);
  CHECK(files(dir.path(), ".jsonl").size() == all);
  store->expire(start + 150);
  CHECK(files(dir.path(), ".jsonl").size() < all);
  CHECK(store->find(answer(120).scope, start + 150).has_value());
  CHECK_FALSE(store->truncated());
  store->expire(start + 10'000);
  REQUIRE(store->flush(true).has_value());
  store->expire(start + 10'000);
  CHECK(files(dir.path(), ".jsonl").empty());
  CHECK(files(dir.path(), ".idx").empty());
  CHECK_FALSE(store->truncated());
  store->put(answer(20'000));
  REQUIRE(store->flush(true).has_value());
  CHECK(open_store(options)->find(answer(20'000).scope, start + 20'000).has_value());
}

TEST_CASE("max_bytes: the oldest go, and that is told while they would still have been kept") {
  const TempDir dir;
  const AnswerStore::Options options{
      .dir = dir.path(), .retention_ms = 1000, .max_bytes = 30'000, .segment_bytes = 5000};
  const auto store = open_store(options);
  fill(*store, 400);
  store->expire(start + 400);
  CHECK(store->truncated());
  std::uint64_t bytes = 0;
  for (const char* extension : {".jsonl", ".idx"})
    for (const fs::path& file : files(dir.path(), extension)) bytes += fs::file_size(file);
  CHECK(bytes <= 30'000);
  CHECK(bytes > 15'000);
  CHECK_FALSE(store->find(answer(0).scope, start).has_value());
  CHECK(store->find(answer(399).scope, start).has_value());
  store->expire(start + 5000);
  CHECK_FALSE(store->truncated());
}

TEST_CASE("a directory that cannot be written: answers are kept in memory and written when it can") {
  const TempDir dir;
  const AnswerStore::Options options{.dir = dir.path() / "keys", .segment_bytes = 2000};
  const auto store = open_store(options);
  fs::remove(options.dir);
  for (int i = 0; i < 50; ++i) store->put(answer(i));
  CHECK_FALSE(store->flush(true).has_value());
  CHECK_FALSE(store->flush(false).has_value());
  for (int i = 0; i < 50; ++i) CHECK(store->find(answer(i).scope, start) == answer(i));
  fs::create_directory(options.dir);
  REQUIRE(store->flush(true).has_value());
  const auto again = open_store(options);
  for (int i = 0; i < 50; ++i) CHECK(again->find(answer(i).scope, start) == answer(i));
}

TEST_CASE("found from one thread while others put, flush and expire") {
  const TempDir dir;
  const auto store = open_store({.dir = dir.path(), .segment_bytes = 4000});
  constexpr int count = 2000;
  std::atomic<int> put = 0;
  std::atomic<int> missing = 0;
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    for (int i = 0; i < count; ++i) {
      store->put(answer(i));
      put = i + 1;
    }
  });
  threads.emplace_back([&] {
    while (put < count) {
      if (!store->flush(false)) ++missing;
      store->expire(start);
    }
  });
  threads.emplace_back([&] {
    for (int i = 0; put < count; ++i) {
      const int known = put;
      if (known > 0 && store->find(answer(i % known).scope, start) != answer(i % known)) ++missing;
    }
  });
  for (std::thread& thread : threads) thread.join();
  CHECK(missing == 0);
  REQUIRE(store->flush(true).has_value());
  for (int i = 0; i < count; ++i) CHECK(store->find(answer(i).scope, start).has_value());
}

}  // namespace
}  // namespace sessiond::answers
