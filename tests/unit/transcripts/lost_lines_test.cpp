#include "transcripts/lost_lines.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>

#include <algorithm>

#include "store/files.hpp"
#include "tests/unit/temp_dir.hpp"
#include "transcripts/entry.hpp"
#include "transcripts/line_index.hpp"
#include "transcripts/transcript_writer.hpp"

using namespace sessiond;
using namespace sessiond::transcripts;
using namespace sessiond::testing;

namespace {

constexpr std::string_view file_name = "s1.jsonl";

std::string entry_of(std::uint64_t seq) {
  return R"({"type":"message","id":"e)" + std::to_string(seq) + R"(","message":{"role":"user","content":"x"}})" + "\n";
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> all;
  for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1)
    all.push_back(text.substr(at, text.find('\n', at) - at));
  return all;
}

struct Files {
  TempDir dir;
  TranscriptWriter writer{dir.path()};

  Files() {
    writer.make_up_lost_lines([](std::string_view) { return true; });
  }
  void add(std::uint64_t offset, std::uint64_t seq) {
    writer.add({.file = std::string(file_name), .offset = offset, .seq = seq}, entry_of(seq),
               "e" + std::to_string(seq));
  }
  std::string text() {
    REQUIRE(writer.flush());
    return *store::read_file(dir.path() / file_name);
  }
};

}  // namespace

TEST_CASE("a line behind lost ones stands at its offset, and the lost ones are entries that cannot be read") {
  Files at;
  at.add(1000, 4);
  at.add(1000 + entry_of(4).size(), 5);
  const std::string text = at.text();
  CHECK(text.substr(1000) == entry_of(4) + entry_of(5));
  const auto lines = lines_of(text);
  REQUIRE(lines.size() == 7);
  CHECK(is_header(lines[0]));
  for (std::size_t seq = 0; seq < 4; ++seq) CHECK(entry_type(lines[seq + 1]) == "unreadable");
  CHECK(at.writer.take_renumbered().empty());
  CHECK(at.writer.take_displaced().empty());
}

TEST_CASE("lost lines in the middle, and between two flushes") {
  Files at;
  const std::string header = header_line("s1", 1, {}, {});
  at.writer.add({.file = std::string(file_name), .offset = 0}, header, "");
  at.add(header.size(), 0);
  at.add(2000, 3);
  CHECK(at.text().substr(2000) == entry_of(3));
  at.add(3000, 6);
  const std::string text = at.text();
  CHECK(text.substr(3000) == entry_of(6));
  CHECK(text.starts_with(header + entry_of(0)));
  const auto lines = lines_of(text);
  REQUIRE(lines.size() == 8);
  for (const std::size_t seq : {1U, 2U, 4U, 5U}) CHECK(entry_type(lines[seq + 1]) == "unreadable");
}

TEST_CASE("the header alone is lost, or there is hardly room") {
  Files at;
  SUBCASE("the header") {
    at.add(400, 0);
    const std::string text = at.text();
    CHECK(text.substr(400) == entry_of(0));
    CHECK(is_header(lines_of(text)[0]));
  }
  SUBCASE("two bytes for each line") {
    at.add(10, 5);
    const std::string text = at.text();
    CHECK(text.substr(10) == entry_of(5));
    CHECK(lines_of(text).size() == 6);
  }
  SUBCASE("too few: the line comes behind what is there") {
    at.add(9, 5);
    CHECK(at.text() == entry_of(5));
  }
}

TEST_CASE("lines that are there are not written again, and other files are left as they are") {
  Files at;
  at.add(1000, 4);
  const std::string text = at.text();
  at.add(1000, 4);
  CHECK(at.text() == text);
  at.writer.make_up_lost_lines([](std::string_view file) { return file != file_name; });
  at.add(5000, 9);
  CHECK(at.text() == text + entry_of(9));
}

TEST_CASE("a transcript of which nothing but the number of its entries is known") {
  const std::string text = lost_transcript("s1", 3);
  const auto lines = lines_of(text);
  REQUIRE(lines.size() == 4);
  CHECK(is_header(lines[0]));
  CHECK(entry_type(lines[3]) == "unreadable");
}

TEST_CASE("no file is made in a folder that is to stay absent, until it holds sessions") {
  TempDir dir;
  TranscriptWriter writer(dir.path());
  writer.keep_absent("agents/main/", dir.path() / "agents/main");
  writer.add({.file = "agents/main/s1.jsonl", .offset = 0, .seq = 0}, entry_of(0), "e0");
  writer.add({.file = "agents/other/s1.jsonl", .offset = 0, .seq = 0}, entry_of(0), "e0");
  REQUIRE(writer.flush());
  CHECK(writer.stuck().contains("agents/main/s1.jsonl"));
  CHECK_FALSE(std::filesystem::exists(dir.path() / "agents/main"));
  CHECK(std::filesystem::exists(dir.path() / "agents/other/s1.jsonl"));
  SUBCASE("somebody makes it, with a store in it") {
    REQUIRE(store::make_dirs(dir.path() / "agents/main"));
    REQUIRE(writer.flush());
    CHECK(writer.stuck().contains("agents/main/s1.jsonl"));  // it is empty
    REQUIRE(store::replace_file(dir.path() / "agents/main/sessions.json", "{}"));
  }
  SUBCASE("it may be made") { writer.make_again(dir.path() / "agents/main"); }
  REQUIRE(writer.flush());
  CHECK(writer.stuck().empty());
  CHECK(*store::read_file(dir.path() / "agents/main/s1.jsonl") == entry_of(0));
}
