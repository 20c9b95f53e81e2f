#include "transcripts/migrate.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "store/json/raw_json.hpp"
#include "tests/unit/temp_dir.hpp"
#include "transcripts/entry.hpp"
#include "transcripts/transcript.hpp"

using namespace sessiond;
using namespace sessiond::transcripts;
using sessiond::testing::TempDir;

namespace {

std::vector<std::string> views(const std::filesystem::path& path) {
  std::vector<std::string> all;
  const auto transcript = Transcript::open(path, {});
  REQUIRE(transcript);
  const auto page = (*transcript)->page({.limit = 1000});
  REQUIRE(page);
  for (const StoredLine& line : page->lines) all.push_back(view_entry(line.line, line.seq, View::full).value());
  return all;
}

// A Message but for its parent: what a migration must not change.
std::string without_parent(std::string_view message) {
  json::Edit edit;
  edit.remove("parentId");
  return json::apply(message, edit);
}

Migration migrate(const std::filesystem::path& path, int* kept = nullptr) {
  const auto done = migrate_transcript(path, "given", [&]() -> Result<void> {
    if (kept != nullptr) ++*kept;
    return {};
  });
  REQUIRE(done);
  return *done;
}

}  // namespace

TEST_CASE("whatever shape a line has, its seq, id and content stay") {
  TempDir dir;
  const auto path = dir.write(
      "t.jsonl",
      "{\"type\":\"session\",\"id\":\"s\",\"x\":1e400,\"cwd\":\"/w\"}\n"
      "{\"type\":\"user\",\"content\":\"half \\ud83d\",\"timestamp\":1234567890123,\"z\":null}\n"
      "{ \"role\" : \"assistant\", \"content\":[{\"type\":\"text\",\"text\":\"b\"}], \"n\":12345678901234567890 }\r\n"
      "garbage \xff\n"
      "\n"
      "{\"type\":\"message\",\"timestamp\":\"2026-01-01T00:00:00.000Z\",\"message\":{\"role\":\"user\",\"content\":"
      "\"c\"},\"y\":[]}\n"
      "{\"type\":\"user\",\"role\":\"odd\",\"content\":\"d\",\"timestamp\":\"2026-01-01T00:00:00.000Z\"}\n"
      "{\"type\":\"message\",\"id\":17,\"message\":{\"role\":\"user\",\"content\":\"number\"}}\n"
      "{\"neither\":true}\n"
      "{\"type\":\"thinking_level_change\",\"thinkingLevel\":\"off\"}\n"
      "{\"type\":\"message\",\"id\":\"own\",\"parentId\":\"far\",\"message\":{\"role\":\"hookMessage\",\"content\":"
      "\"e\"}}");
  const auto before = views(path);
  const std::string old = dir.read("t.jsonl");
  int kept = 0;
  const Migration done = migrate(path, &kept);
  CHECK(done.version == 1);
  CHECK(done.entries == 10);
  CHECK(done.changed == 6);
  CHECK(kept == 1);

  const auto after = views(path);
  REQUIRE(after.size() == before.size());
  for (std::size_t i = 0; i + 1 < before.size(); ++i) CHECK(without_parent(after[i]) == without_parent(before[i]));
  CHECK(json::string_at(after.back(), "role") == "custom");
  CHECK(json::string_at(after.back(), "id") == "own");
  CHECK(json::string_at(after.back(), "parentId") == "far");
  // The chain: each entry follows the one before it, over lines that cannot be read.
  CHECK_FALSE(json::string_at(after[0], "parentId"));
  CHECK(json::string_at(after[1], "parentId") == json::string_at(before[0], "id"));
  CHECK(json::string_at(after[4], "parentId") == json::string_at(before[1], "id"));

  const std::string text = dir.read("t.jsonl");
  CHECK(text.starts_with("{\"type\":\"session\",\"id\":\"s\",\"x\":1e400,\"cwd\":\"/w\",\"version\":3}\n"));
  for (const char* part : {"half \\ud83d", "12345678901234567890", "garbage \xff\n\n", "\"y\":[]", "\"role\":\"odd\"",
                           "{\"neither\":true}\n", "\"z\":null", "\"timestamp\":1234567890123"})
    CHECK(text.contains(part));

  CHECK(migrate(path, &kept).changed == 0);
  CHECK(kept == 1);
  CHECK(dir.read("t.jsonl") == text);
}

TEST_CASE("a transcript without a header gets one, and its entries keep their seqs") {
  TempDir dir;
  const auto path = dir.write(
      "t.jsonl",
      "\xef\xbb\xbf{\"role\":\"user\",\"content\":\"a\",\"timestamp\":1000}\n{\"role\":\"user\",\"content\":\"b\"}\n");
  const auto before = views(path);
  const Migration done = migrate(path);
  CHECK(done.version == 0);
  CHECK(done.header_changed);
  const auto after = views(path);
  REQUIRE(after.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) CHECK(without_parent(after[i]) == without_parent(before[i]));
  CHECK(dir.read("t.jsonl").starts_with(
      "{\"type\":\"session\",\"version\":3,\"id\":\"given\",\"timestamp\":\"1970-01-01T00:00:01.000Z\""));
  CHECK(migrate(path).changed == 0);
}

TEST_CASE("version 1 counted lines: the first kept entry of a compaction is named") {
  TempDir dir;
  const auto path = dir.write("t.jsonl",
                              "{\"type\":\"session\",\"id\":\"s\"}\n"
                              "{\"type\":\"message\",\"message\":{\"role\":\"user\",\"content\":\"a\"}}\n"
                              "{\"type\":\"message\",\"message\":{\"role\":\"user\",\"content\":\"b\"}}\n"
                              "{\"type\":\"compaction\",\"summary\":\"\",\"firstKeptEntryIndex\":2}\n"
                              "{\"type\":\"compaction\",\"summary\":\"\",\"firstKeptEntryIndex\":99}\n");
  const auto before = views(path);
  migrate(path);
  const auto after = views(path);
  CHECK(json::string_at(after[2], "firstKeptEntryId") == json::string_at(before[1], "id"));
  CHECK(json::int_at(after[2], "firstKeptEntryIndex") == 2);
  CHECK_FALSE(json::find(after[3], "firstKeptEntryId"));
}

TEST_CASE("what is version 3, newer, empty or damaged is not touched") {
  TempDir dir;
  for (const std::string& text :
       {std::string("{\"type\":\"session\",\"version\":3,\"id\":\"s\"}\n{\"type\":\"message\",\"id\":\"a\",\"message\":"
                    "{\"role\":\"user\"}}\n"),
        std::string("{\"type\":\"session\",\"version\":4,\"id\":\"s\"}\n{\"role\":\"user\",\"content\":\"x\"}\n"),
        std::string(), std::string("garbage\n\0\n", 10)}) {
    const auto path = dir.write("t.jsonl", text);
    int kept = 0;
    migrate(path, &kept);
    CHECK(kept == 0);
    CHECK(dir.read("t.jsonl") == text);
  }
}

TEST_CASE("when the old one cannot be kept, or is written meanwhile, it stays and nothing is left beside it") {
  TempDir dir;
  const std::string text = "{\"role\":\"user\",\"content\":\"a\"}\n";
  const auto path = dir.write("t.jsonl", text);
  CHECK_FALSE(migrate_transcript(path, "s", []() -> Result<void> { return fail(Code::storage_full, "no room"); }));
  CHECK(dir.read("t.jsonl") == text);
  CHECK(std::distance(std::filesystem::directory_iterator(dir.path()), {}) == 1);
}
