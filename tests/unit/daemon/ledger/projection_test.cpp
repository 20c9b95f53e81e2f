#include "daemon/ledger/projection.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "daemon/decide/archive_records.hpp"
#include "store/files.hpp"
#include "tests/unit/temp_dir.hpp"

using namespace sessiond;
using namespace sessiond::ledger;
using sessiond::testing::TempDir;

TEST_CASE("ends that lines on their way need are not let go") {
  const TempDir dir;
  const Paths paths(dir.path(), "agents/{agentId}/sessions/sessions.json");
  const std::atomic<bool> adopting{false};
  FlushedSizes sizes;
  Projection projection(paths, {}, adopting, sizes);
  const std::vector<journal::Bytes> events{std::make_shared<const std::string>(R"({"type":"message.appended"})")};
  const std::vector<journal::LinePosition> positions{
      {.file = "s.jsonl", .agent = "main", .at = 0, .seq = 1, .line = "{\"type\":\"message\",\"id\":\"a\"}\n"}};
  REQUIRE(projection.add(1, events, positions));
  projection.unload_agent("main");
  REQUIRE(projection.writer().flush());
  auto foreign = projection.foreign("main", {});
  REQUIRE(foreign);
  CHECK(foreign->empty());
  projection.unload_agent("main");  // not saved
  foreign = projection.foreign("main", {});
  REQUIRE(foreign);
  CHECK(foreign->empty());
  REQUIRE(projection.sync());
  projection.unload_agent("main");
  foreign = projection.foreign("main", {"s.jsonl"});
  REQUIRE(foreign);
  CHECK(foreign->empty());
}

TEST_CASE("a transcript is as flushed only while looking at it would find nothing") {
  const TempDir dir;
  const Paths paths(dir.path(), "agents/{agentId}/sessions/sessions.json");
  const std::atomic<bool> adopting{false};
  FlushedSizes sizes;
  Projection projection(paths, {}, adopting, sizes);
  const std::string path = "agents/main/sessions/s.jsonl";
  const std::string line = "{\"type\":\"message\",\"id\":\"a\"}\n";
  const std::vector<journal::Bytes> events{std::make_shared<const std::string>(R"({"type":"message.appended"})")};
  const auto status = [&] { return store::stat_of(dir.path() / path).value(); };
  const auto size = [&] { return static_cast<std::uint64_t>(status().st_size); };
  const auto add_ours = [&](std::uint64_t at) {
    const journal::LinePosition ours{.file = "s.jsonl", .agent = "main", .at = at, .seq = 1, .line = line};
    REQUIRE(projection.add(1, events, {&ours, 1}));
    REQUIRE(projection.writer().flush());
  };
  const auto is_known = [&] {
    const bool known = sizes.is_known(path, status().st_ino, size());
    CHECK(known == projection.foreign("main", {"s.jsonl"})->empty());
    return known;
  };
  add_ours(0);
  CHECK(is_known());
  CHECK_FALSE(sizes.is_known(path, status().st_ino + 1, size()));
  CHECK_FALSE(sizes.is_known(path, status().st_ino, size() - 1));
  CHECK_FALSE(sizes.is_known(path, 0, size()));
  CHECK_FALSE(sizes.is_known("agents/main/sessions/t.jsonl", status().st_ino, size()));

  const std::uint64_t theirs = size();
  std::ofstream(dir.path() / path, std::ios::app) << line;  // a foreign program's
  CHECK_FALSE(is_known());
  add_ours(size());
  CHECK_FALSE(is_known());
  const journal::LinePosition published{
      .file = "s.jsonl", .agent = "main", .at = theirs, .seq = 1, .length = line.size(), .inode = status().st_ino};
  REQUIRE(projection.add(1, events, {&published, 1}));
  add_ours(size());
  CHECK(is_known());

  std::filesystem::remove(dir.path() / path);
  REQUIRE(projection.forget_deleted("main", "s.jsonl"));
  std::ofstream(dir.path() / path) << line << line << line << line;
  CHECK_FALSE(is_known());
}

namespace {

journal::Bytes purge_of(std::uint64_t seq) {
  return journal::make_event({.seq = seq,
                              .time = 1,
                              .type = journal::EventType::session_deleted,
                              .agent = "main",
                              .key = "agent:main:k",
                              .session_id = "s"},
                             R"({"archivedAs":["s.jsonl.deleted.2026-02-21T21-31-50.885Z"],"purged":true})")
      .json;
}

}  // namespace

TEST_CASE("a purge that is repeated leaves a newer file of its name") {
  const TempDir dir;
  const Paths paths(dir.path(), "agents/{agentId}/sessions/sessions.json");
  const std::atomic<bool> adopting{false};
  const auto file = dir.path() / "agents/main/sessions/s.jsonl";
  REQUIRE(store::make_dirs(file.parent_path()));
  REQUIRE(store::replace_file(file, "{\"old\":1}\n"));
  const std::vector<journal::Bytes> events{purge_of(7)};
  const auto nowhere = [](std::uint64_t, const std::string&) { return std::optional<std::string>(); };
  {
    FlushedSizes sizes;
    Projection projection(paths, {}, adopting, sizes);
    REQUIRE(projection.add(7, events, {}));
    CHECK_FALSE(std::filesystem::exists(file));
    REQUIRE(store::replace_file(file, "{\"newer\":1}\n"));
    REQUIRE(projection.add(7, events, {}));  // tried again
    CHECK(store::read_file(file) == "{\"newer\":1}\n");
  }
  FlushedSizes sizes;
  Projection again(paths, {}, adopting, sizes);  // after a kill
  CHECK(again.archives().contains("main", 7) == true);
  REQUIRE(again.add(7, events, {}, nowhere));
  CHECK(store::read_file(file) == "{\"newer\":1}\n");
  // One that was killed before it was recorded goes on: the next purge takes the file.
  const std::vector<journal::Bytes> next{purge_of(8)};
  REQUIRE(again.add(8, next, {}, nowhere));
  CHECK_FALSE(std::filesystem::exists(file));
}

TEST_CASE("a purge that was killed between rename and record destroys only what it renamed") {
  const TempDir dir;
  const Paths paths(dir.path(), "agents/{agentId}/sessions/sessions.json");
  const std::atomic<bool> adopting{false};
  const auto folder = dir.path() / "agents/main/sessions";
  REQUIRE(store::make_dirs(folder));
  REQUIRE(store::replace_file(folder / "s.jsonl.deleted.2026-02-21T21-31-50.885Z", "{\"old\":1}\n"));
  REQUIRE(store::replace_file(folder / "s.jsonl", "{\"newer\":1}\n"));
  FlushedSizes sizes;
  Projection projection(paths, {}, adopting, sizes);
  const std::vector<journal::Bytes> events{purge_of(7)};
  REQUIRE(
      projection.add(7, events, {}, [](std::uint64_t, const std::string&) { return std::optional<std::string>(); }));
  CHECK(store::read_file(folder / "s.jsonl") == "{\"newer\":1}\n");
  CHECK_FALSE(std::filesystem::exists(folder / "s.jsonl.deleted.2026-02-21T21-31-50.885Z"));
}

TEST_CASE("records of archives outlive a torn line, and dead ones go") {
  const TempDir dir;
  const auto path = dir.path() / "archives" / "main.jsonl";
  const decide::ArchiveRecord kept{
      .seq = 1, .time = 2, .key = "k", .session_id = "a", .reason = "r", .archived_as = {"n"}};
  REQUIRE(decide::append_archive_records(path, decide::to_line(kept) + "{\"seq\":2,\"ses", false));
  REQUIRE(decide::append_archive_records(path, decide::to_line({.seq = 3, .session_id = "b", .purged = true}), true));
  auto read = decide::read_archive_records(path);
  REQUIRE(read);
  REQUIRE(read->size() == 2);
  CHECK(decide::to_line(read->at(0)) == decide::to_line(kept));
  CHECK(read->at(1).purged);
  REQUIRE(decide::compact_archive_records(path, [](const decide::ArchiveRecord& record) { return record.seq == 3; }));
  read = decide::read_archive_records(path);
  REQUIRE(read);
  REQUIRE(read->size() == 1);
  CHECK(read->at(0).seq == 3);
}
