#include "transcripts/archive.hpp"

#include <doctest/doctest.h>

#include "tests/unit/temp_dir.hpp"

using namespace sessiond;
using namespace sessiond::transcripts;
using sessiond::testing::TempDir;

TEST_CASE("archive names are those of the OpenClaw trees") {
  CHECK(archive_name("x.jsonl", "reset", 1'771'709'510'885) == "x.jsonl.reset.2026-02-21T21-31-50.885Z");
  CHECK(archive_name("x-topic-1.jsonl", "deleted", 0) == "x-topic-1.jsonl.deleted.1970-01-01T00-00-00.000Z");
}

TEST_CASE("archiving renames once, never replaces, and may be repeated") {
  TempDir dir;
  dir.write("x.jsonl", "one\n");
  const std::string name = archive_name("x.jsonl", "reset", 0);
  CHECK(archive(dir.path(), "x.jsonl", name) == true);
  CHECK(dir.read(name) == "one\n");
  CHECK_FALSE(std::filesystem::exists(dir.path() / "x.jsonl"));
  CHECK(archive(dir.path(), "x.jsonl", name) == false);
  dir.write("x.jsonl", "two\n");
  CHECK_FALSE(archive(dir.path(), "x.jsonl", name).has_value());
  CHECK(dir.read("x.jsonl") == "two\n");
  CHECK(dir.read(name) == "one\n");
  CHECK(archive(dir.path() / "absent", "x.jsonl", name) == false);
  for (const char* bad : {"", ".", "..", "../x", "a/b"}) {
    CHECK_FALSE(archive(dir.path(), bad, name).has_value());
    CHECK_FALSE(archive(dir.path(), "x.jsonl", bad).has_value());
  }
}

TEST_CASE("a session's archives are found by name, and no other's") {
  TempDir dir;
  const std::string time = ".2026-02-21T21-31-50.885Z";
  for (const std::string& name :
       {"s1.jsonl.reset" + time, "s1.jsonl.deleted" + time, "s1-topic-4%2F2.jsonl.reset" + time})
    dir.write(name, "");
  for (const std::string& name : {std::string("s1.jsonl"), "s12.jsonl.reset" + time, "s1.jsonl.bak" + time,
                                  std::string("s1.jsonl.reset.yesterday"), "s1x-topic-1.jsonl.reset" + time,
                                  std::string("s1.jsonl.reset."), "s1.reset" + time})
    dir.write(name, "");
  CHECK(list_archives(dir.path(), "s1") == std::vector<std::string>{"s1-topic-4%2F2.jsonl.reset" + time,
                                                                    "s1.jsonl.deleted" + time,
                                                                    "s1.jsonl.reset" + time});
  CHECK(list_archives(dir.path() / "absent", "s1") == std::vector<std::string>{});
}
