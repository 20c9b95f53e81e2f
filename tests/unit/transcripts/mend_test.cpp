#include "transcripts/mend.hpp"

#include <doctest/doctest.h>

#include "tests/unit/temp_dir.hpp"

using namespace sessiond;
using namespace sessiond::transcripts;
using sessiond::testing::TempDir;

namespace {

const std::string whole = "{\"type\":\"session\",\"version\":3,\"id\":\"s\"}\n{\"role\":\"user\",\"content\":\"a\"}\n";

}  // namespace

TEST_CASE("a torn end is cut off and kept, to the byte") {
  TempDir dir;
  for (const std::string& torn : {std::string("{\"type\":\"mess"), std::string(9000, '\0'), std::string("x"),
                                  std::string("[1]"), std::string(300'000, '{')}) {
    const auto path = dir.write("t.jsonl", whole + torn);
    const auto mended = mend_end(path);
    REQUIRE(mended);
    REQUIRE(*mended);
    CHECK((*mended)->offset == whole.size());
    CHECK((*mended)->bytes == torn.size());
    CHECK(dir.read("t.jsonl") == whole);
    CHECK(dir.read((*mended)->torn.filename().native()) == torn);
    const auto again = mend_end(path);
    REQUIRE(again);
    CHECK_FALSE(*again);
    std::filesystem::remove((*mended)->torn);
  }
}

TEST_CASE("a last line that is an entry gets its newline, nothing else changes") {
  TempDir dir;
  const auto path = dir.write("t.jsonl", whole.substr(0, whole.size() - 1));
  const auto mended = mend_end(path);
  REQUIRE(mended);
  REQUIRE(*mended);
  CHECK((*mended)->torn.empty());
  CHECK(dir.read("t.jsonl") == whole);
}

TEST_CASE("a torn end that is kept gets its newline, nothing else changes") {
  TempDir dir;
  const auto path = dir.write("t.jsonl", whole + "{\"type\":\"mess");
  const auto mended = mend_end(path, TornLine::keep);
  REQUIRE(mended);
  REQUIRE(*mended);
  CHECK((*mended)->torn.empty());
  CHECK(dir.read("t.jsonl") == whole + "{\"type\":\"mess\n");
}

TEST_CASE("what ends as it should, is empty or absent is left alone; a folder is a problem") {
  TempDir dir;
  for (const std::string& text : {whole, std::string(), std::string("garbage\n"), std::string("\n")}) {
    const auto mended = mend_end(dir.write("t.jsonl", text));
    REQUIRE(mended);
    CHECK_FALSE(*mended);
    CHECK(dir.read("t.jsonl") == text);
  }
  CHECK_FALSE(mend_end(dir.path() / "none.jsonl").value().has_value());
  CHECK_FALSE(mend_end(dir.path()));
}
