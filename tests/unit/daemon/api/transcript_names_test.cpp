#include "daemon/api/transcript_names.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <ctime>

#include "tests/unit/temp_dir.hpp"

using namespace sessiond;
using sessiond::testing::TempDir;
using Ids = std::vector<std::string>;

namespace {

void set_changed(const std::filesystem::path& folder, std::time_t seconds) {
  const std::array<timespec, 2> times{timespec{seconds, 0}, timespec{seconds, 0}};
  REQUIRE(::utimensat(AT_FDCWD, folder.c_str(), times.data(), 0) == 0);
}

}  // namespace

TEST_CASE("transcript names: ids are found in each folder, in one at rest and in one that changes") {
  const TempDir dir;
  dir.write("a/s1.jsonl", "");
  dir.write("b/s2.jsonl", "");
  dir.write("b/s3.jsonl.reset.2026-02-21T21-31-50.885Z", "");
  api::TranscriptNames names;
  const std::vector<std::filesystem::path> folders{dir.path() / "a", dir.path() / "b", dir.path() / "none"};
  const Ids asked{"s1", "s2", "s3", "s4"};
  CHECK(names.found(folders, asked) == Ids{"s1", "s2"});  // they changed just now
  set_changed(folders[0], 1'000'000'000);
  set_changed(folders[1], 1'000'000'000);
  CHECK(names.found(folders, asked) == Ids{"s1", "s2"});
  CHECK(names.found(folders, asked) == Ids{"s1", "s2"});
  dir.write("b/s4.jsonl", "");
  CHECK(names.found(folders, asked) == Ids{"s1", "s2", "s4"});
  set_changed(folders[1], 1'000'000'001);
  CHECK(names.found(folders, asked) == Ids{"s1", "s2", "s4"});
  std::filesystem::remove(folders[0] / "s1.jsonl");
  CHECK(names.found(folders, asked) == Ids{"s2", "s4"});
  CHECK(names.found({}, asked).empty());
}
