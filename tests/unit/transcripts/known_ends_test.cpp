#include "transcripts/known_ends.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <algorithm>

#include <fstream>

#include "tests/unit/temp_dir.hpp"

using namespace sessiond;
using namespace sessiond::transcripts;
using sessiond::testing::TempDir;
namespace fs = std::filesystem;

namespace {

struct Folder {
  TempDir temp;
  fs::path dir = temp.path() / "sessions";
  fs::path record = temp.path() / "ends" / "main.jsonl";

  Folder() { fs::create_directory(dir); }
  void write(const std::string& file, std::string_view bytes, std::ios::openmode mode = std::ios::app) const {
    std::ofstream(dir / file, mode | std::ios::binary) << bytes;
  }
  std::uint64_t inode(const std::string& file) const {
    struct stat status{};
    REQUIRE(::stat((dir / file).c_str(), &status) == 0);
    return status.st_ino;
  }
  KnownEnds open(bool adopt = true) const {
    auto ends = KnownEnds::open(dir, record, adopt);
    REQUIRE(ends);
    return std::move(*ends);
  }
};

std::optional<ForeignEdit> look(const KnownEnds& ends, const std::string& file = "a.jsonl") {
  auto edit = ends.look(file);
  REQUIRE(edit);
  return std::move(*edit);
}

}  // namespace

TEST_CASE("known ends: what stands there first is known, what follows is not, also after a restart") {
  const Folder folder;
  folder.write("a.jsonl", "one\n");
  folder.write("no transcript", "x");
  {
    CHECK_FALSE(look(folder.open()));
  }
  folder.write("a.jsonl", "two\n");
  folder.write("b.jsonl", "new\n");
  const KnownEnds ends = folder.open();
  CHECK(look(ends)->kind == ForeignEdit::Kind::appended);
  CHECK(look(ends)->unknown == std::vector<ByteRange>{{4, 8}});
  CHECK(look(ends, "b.jsonl")->unknown == std::vector<ByteRange>{{0, 4}});
  CHECK(ends.look()->size() == 2);
}

TEST_CASE("known ends: nothing is adopted") {
  const Folder folder;
  folder.write("a.jsonl", "one\n");
  const KnownEnds ends = folder.open(false);
  CHECK(look(ends)->unknown == std::vector<ByteRange>{{0, 4}});
  CHECK(look(folder.open())->unknown == std::vector<ByteRange>{{0, 4}});  // there is a record now
}

TEST_CASE("known ends: lines of ours behind another program's") {
  const Folder folder;
  KnownEnds ends = folder.open();
  folder.write("a.jsonl",
               "0123\n"
               "theirs\n"
               "ours\n"
               "their\n"
               "our\n");
  const std::uint64_t inode = folder.inode("a.jsonl");
  ends.add("a.jsonl", inode, {0, 5});
  ends.add("a.jsonl", inode, {23, 27});
  ends.add("a.jsonl", inode, {12, 17});
  const std::vector<ByteRange> theirs{{5, 12}, {17, 23}};
  CHECK(look(ends)->unknown == theirs);
  REQUIRE(ends.save());
  CHECK(look(folder.open())->unknown == theirs);
  ends.add("a.jsonl", inode, {5, 12});
  CHECK(look(ends)->unknown == std::vector<ByteRange>{{17, 23}});
  ends.add("a.jsonl", inode, {0, 12});  // again
  ends.add("a.jsonl", inode, {17, 23});
  CHECK_FALSE(look(ends));
  CHECK_FALSE(ends.saved());
  REQUIRE(ends.save());
  CHECK_FALSE(look(folder.open()));
}

TEST_CASE("known ends: adopted without its last newline") {
  const Folder folder;
  folder.write("a.jsonl", "one");
  KnownEnds ends = folder.open();
  const std::uint64_t inode = folder.inode("a.jsonl");
  folder.write("a.jsonl", "\nours\n");
  ends.add("a.jsonl", inode, {4, 9});
  CHECK_FALSE(look(ends));
  folder.write("a.jsonl", "theirs\n");
  CHECK(look(ends)->kind == ForeignEdit::Kind::appended);
  CHECK(look(ends)->unknown == std::vector<ByteRange>{{9, 16}});
  ends.add("a.jsonl", inode, {9, 16});
  CHECK_FALSE(look(ends));
  REQUIRE(ends.save());
  CHECK_FALSE(look(folder.open()));

  folder.write("b.jsonl", "one");
  ends.replace("b.jsonl", folder.inode("b.jsonl"), 3);
  folder.write("b.jsonl", "\ntheirs\n");
  CHECK(look(ends, "b.jsonl")->unknown == std::vector<ByteRange>{{4, 11}});
  folder.write("b.jsonl", "another\n", std::ios::trunc);
  CHECK(look(ends, "b.jsonl")->kind == ForeignEdit::Kind::rewritten);
}

TEST_CASE("known ends: another file, a shorter one, other lines, none") {
  const Folder folder;
  folder.write("a.jsonl", "one\ntwo\n");
  KnownEnds ends = folder.open();
  const std::uint64_t inode = folder.inode("a.jsonl");

  folder.write("a.jsonl", "short\n", std::ios::trunc);
  CHECK(look(ends)->kind == ForeignEdit::Kind::rewritten);
  folder.write("a.jsonl", "longer than it was\n", std::ios::trunc);
  CHECK(look(ends)->kind == ForeignEdit::Kind::rewritten);

  folder.write("next", "one\ntwo\nthree\n");
  fs::rename(folder.dir / "next", folder.dir / "a.jsonl");
  CHECK(look(ends)->kind == ForeignEdit::Kind::rewritten);
  ends.add("a.jsonl", folder.inode("a.jsonl"), {8, 14});  // says nothing of the rest
  CHECK(look(ends)->kind == ForeignEdit::Kind::rewritten);
  ends.replace("a.jsonl", folder.inode("a.jsonl"), 14);
  CHECK_FALSE(look(ends));
  ends.add("a.jsonl", inode, {14, 20});  // of the file before
  CHECK_FALSE(look(ends));

  fs::remove(folder.dir / "a.jsonl");
  CHECK(look(ends)->kind == ForeignEdit::Kind::removed);
  CHECK(ends.look()->size() == 1);
  ends.forget("a.jsonl");
  CHECK_FALSE(look(ends));
  REQUIRE(ends.save());
  CHECK(folder.open().look()->empty());
  fs::remove(folder.dir);
  CHECK(folder.open().look()->empty());
}

TEST_CASE("known ends: a transcript that another program removes is lost until it is back, also over a restart") {
  const Folder folder;
  const std::string file = "s-topic-t.jsonl";
  folder.write(file, "one\n");
  KnownEnds ends = folder.open();
  CHECK(ends.lost().empty());
  fs::rename(folder.dir / file, folder.dir / "away");
  CHECK(look(ends, file)->kind == ForeignEdit::Kind::removed);
  std::string record;
  const auto lost_in_record = [&] {
    std::getline(std::ifstream(folder.record, std::ios::binary), record, '\0');
    return KnownEnds::lost_in(record, folder.dir);
  };
  CHECK(lost_in_record() == std::vector{file});
  ends.replace(file, 0, 0);
  CHECK_FALSE(look(ends, file));  // told once
  REQUIRE(ends.save());
  ends = folder.open();
  CHECK(ends.lost() == std::vector{file});
  CHECK(lost_in_record() == std::vector{file});
  CHECK_FALSE(look(ends, file));

  SUBCASE("put back") {
    fs::rename(folder.dir / "away", folder.dir / file);
    CHECK(look(ends, file)->unknown == std::vector<ByteRange>{{0, 4}});
    ends.add(file, folder.inode(file), {0, 4});
    CHECK_FALSE(look(ends, file));
  }
  SUBCASE("given another name") { ends.forget(file); }
  SUBCASE("purged with its session") {
    ends.forget_lost("another");
    CHECK(ends.lost() == std::vector{file});
    ends.forget_lost("s");
  }
  CHECK(ends.lost().empty());
  REQUIRE(ends.save());
  CHECK(folder.open().lost().empty());
  CHECK(lost_in_record().empty());
}

TEST_CASE("known ends: lines of ours in a file that another program has just put there are not taken for its lines") {
  const Folder folder;
  folder.write("a.jsonl", "one\n");
  KnownEnds ends = folder.open();
  folder.write("b", "1\n2\n");  // while it is there, the inode of a.jsonl is not given again
  fs::rename(folder.dir / "b", folder.dir / "a.jsonl");
  const auto seen = look(ends);
  CHECK(seen->kind == ForeignEdit::Kind::rewritten);
  CHECK(seen->size == 4);
  folder.write("a.jsonl", "ours\n");  // before what was seen is noted
  ends.add("a.jsonl", folder.inode("a.jsonl"), {4, 9});
  CHECK(look(ends)->kind == ForeignEdit::Kind::rewritten);
  ends.replace("a.jsonl", seen->inode, seen->size);
  CHECK_FALSE(look(ends));
  folder.write("a.jsonl", "theirs\n");
  CHECK(look(ends)->unknown == std::vector<ByteRange>{{9, 16}});
  // Lines of a file that is gone do not count in the next one.
  ends.add("a.jsonl", seen->inode + 1, {0, 16});
  ends.replace("a.jsonl", seen->inode, 9);
  CHECK(look(ends)->unknown == std::vector<ByteRange>{{9, 16}});
}

TEST_CASE("known ends: a torn record says what it said before, and is made anew") {
  const Folder folder;
  folder.write("a.jsonl", "one\n");
  KnownEnds ends = folder.open();
  const std::uint64_t inode = folder.inode("a.jsonl");
  std::ofstream(folder.record, std::ios::app) << R"({"file":"a.jsonl","ino)";
  KnownEnds again = folder.open();
  CHECK_FALSE(look(again));
  folder.write("a.jsonl", "two\n");
  again.add("a.jsonl", inode, {4, 8});
  REQUIRE(again.save());
  CHECK_FALSE(look(folder.open()));
}

TEST_CASE("known ends: a damaged record is made anew with all that stands there, so nothing is told twice") {
  const Folder folder;
  folder.write("a.jsonl", "one\n");
  folder.write("b.jsonl", "two\n");
  static_cast<void>(folder.open());
  std::string whole;
  std::getline(std::ifstream(folder.record, std::ios::binary), whole, '\0');
  REQUIRE(std::ranges::count(whole, '\n') == 3);
  const auto damage = [&](std::string_view text) {
    std::ofstream(folder.record, std::ios::binary | std::ios::trunc) << text;
    CHECK(folder.open().look()->empty());
    CHECK_FALSE(folder.open().was_damaged());
  };
  std::ofstream(folder.record, std::ios::binary | std::ios::trunc).flush();
  CHECK(folder.open().was_damaged());
  for (std::size_t at = 0; at < whole.size(); ++at) {
    CAPTURE(at);
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 1);
    damage(flipped);
    if (at + 1 < whole.size()) damage(whole.substr(0, at));
  }
}

TEST_CASE("known ends: the record does not grow without end") {
  const Folder folder;
  folder.write("a.jsonl", "0\n");
  KnownEnds ends = folder.open();
  for (std::uint64_t i = 1; i <= 3000; ++i) {
    ends.add("a.jsonl", folder.inode("a.jsonl"), {2 * i, 2 * i + 2});
    if (i % 100 == 0) REQUIRE(ends.save());
  }
  for (std::uint64_t i = 0; i < 1200; ++i) {
    ends.replace("b" + std::to_string(i) + ".jsonl", 1, 1);
    REQUIRE(ends.save());
    ends.forget("b" + std::to_string(i) + ".jsonl");
    REQUIRE(ends.save());
  }
  CHECK(fs::file_size(folder.record) < 200'000);
}
