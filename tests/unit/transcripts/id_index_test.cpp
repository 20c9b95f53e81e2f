#include "transcripts/id_index.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/temp_dir.hpp"
#include "transcripts/entry.hpp"
#include "transcripts/transcript.hpp"

using namespace sessiond;
using namespace sessiond::transcripts;
using sessiond::testing::TempDir;
namespace fs = std::filesystem;

namespace {

const std::string index_header = "{\"type\":\"session\",\"version\":3,\"id\":\"s\"}\n";

std::string label(std::size_t number, std::size_t length = 80) {
  return R"({"type":"label","id":"label-)" + std::to_string(number) + R"(","label":")" + std::string(length, 'x') +
         "\"}\n";
}
std::string id_labels(std::size_t from, std::size_t to) {
  std::string text;
  for (std::size_t i = from; i < to; ++i) text += label(i);
  return text;
}
std::string name(std::size_t number) { return "label-" + std::to_string(number); }

// The sidecars of a transcript in a directory, and the transcript as the next start would see it.
struct World {
  TempDir dir;
  fs::path path = dir.path() / "t.jsonl";
  fs::path sidecar = dir.path() / "index" / "t.jsonl.idx";

  std::unique_ptr<Transcript> open() const {
    auto transcript = Transcript::open(path, sidecar);
    REQUIRE_MESSAGE(transcript.has_value(), (transcript ? "" : transcript.error().detail));
    return std::move(*transcript);
  }
  std::uint64_t inode() const {
    struct stat status{};
    REQUIRE(::stat(path.c_str(), &status) == 0);
    return status.st_ino;
  }
};

// seq of the entry, or -1.
std::int64_t seq_of(Transcript& transcript, const std::string& id) {
  const auto found = transcript.find(id);
  REQUIRE_MESSAGE(found.has_value(), (found ? "" : found.error().detail));
  if (!*found) return -1;
  CHECK(entry_id((*found)->line, (*found)->seq) == id);
  return static_cast<std::int64_t>((*found)->seq);
}

}  // namespace

TEST_CASE("a set of hashes holds what it was given, and nothing else") {
  std::mt19937 random(7);
  for (const std::size_t expected : {0U, 10U, 5000U}) {
    IdSet set(expected);
    std::set<std::uint32_t> model;
    for (int i = 0; i < 5000; ++i) {
      const std::uint32_t hash =
          i % 3 == 0 ? static_cast<std::uint32_t>(i + 1) << 18 : 1 + static_cast<std::uint32_t>(random() % 20000);
      CHECK(set.contains(hash) == model.contains(hash));
      set.insert(hash);
      set.insert(hash);
      model.insert(hash);
    }
    for (std::uint32_t hash = 1; hash < 20'000; ++hash) REQUIRE(set.contains(hash) == model.contains(hash));
  }
  CHECK_FALSE(IdSet().contains(1));
  CHECK(id_hash("") != 0);
}

TEST_CASE("an entry is found by its id wherever it stands") {
  World world;
  std::string text = index_header + id_labels(0, 100) + "torn {\n" + R"({"role":"user","content":"no id"})" + "\n" +
                     label(7) + id_labels(200, 9000) + R"({"type":"label","id":"open"})";
  world.dir.write("t.jsonl", text);
  auto transcript = world.open();
  CHECK(seq_of(*transcript, "open") == 8903);  // in no index
  CHECK(seq_of(*transcript, name(8999)) == 8902);
  CHECK_FALSE(fs::exists(Transcript::id_sidecar(world.sidecar)));
  CHECK(seq_of(*transcript, name(0)) == 0);
  CHECK(seq_of(*transcript, name(7)) == 102);  // the last of two
  CHECK(seq_of(*transcript, derived_id("torn {", 100)) == 100);
  CHECK(seq_of(*transcript, derived_id(R"({"role":"user","content":"no id"})", 101)) == 101);
  CHECK(seq_of(*transcript, "s") == -1);  // the index_header is no entry
  CHECK(seq_of(*transcript, "") == -1);
  CHECK(seq_of(*transcript, "never") == -1);
  const std::vector<std::string> several{name(8999), "never", name(5), name(205), "open", name(5)};
  const auto found = transcript->find(several);
  REQUIRE(found);
  CHECK(found->size() == 4);
  CHECK(found->at(name(205)).seq == 108);
  const auto ids = transcript->ids();
  REQUIRE(ids);
  for (const auto& id : {std::string("open"), name(0), name(8999), derived_id("torn {", 100)})
    CHECK(ids->contains(id_hash(id)));
  CHECK_FALSE(ids->contains(id_hash("never")));
}

TEST_CASE("ids are looked for in what was appended, too") {
  World world;
  world.dir.write("t.jsonl", index_header + id_labels(0, 5000));
  auto transcript = world.open();
  CHECK(seq_of(*transcript, name(3)) == 3);
  world.dir.append("t.jsonl", id_labels(5000, 12'000) + R"({"type":"label","id":"half)");
  REQUIRE(transcript->refresh());
  CHECK(seq_of(*transcript, name(5001)) == 5001);
  CHECK(seq_of(*transcript, "half") == -1);
  world.dir.append("t.jsonl", "\"}\n" + id_labels(12'000, 20'000));
  REQUIRE(transcript->refresh());
  CHECK(seq_of(*transcript, "half") == 12'000);
  CHECK(seq_of(*transcript, name(12'000)) == 12'001);
  CHECK(seq_of(*transcript, name(3)) == 3);
  // The same inode, rewritten.
  world.dir.write("t.jsonl", index_header + id_labels(30'000, 50'000));
  REQUIRE(transcript->refresh());
  CHECK(seq_of(*transcript, name(3)) == -1);
  CHECK(seq_of(*transcript, name(30'003)) == 3);
}

TEST_CASE("the ids' sidecar: used when it fits, otherwise not believed") {
  World world;
  const std::string text = index_header + id_labels(0, 10'000);
  world.dir.write("t.jsonl", text);
  const fs::path sidecar = Transcript::id_sidecar(world.sidecar);
  {
    auto transcript = world.open();
    CHECK(seq_of(*transcript, name(1)) == 1);
    REQUIRE(transcript->save_sidecars());
  }
  const std::string stored = world.dir.read("index/t.jsonl.ids");
  const auto index = IdIndex::decode(stored, world.inode());
  REQUIRE(index);
  CHECK(index->hashes.size() == 10'000);
  CHECK(index->hashes[1] == id_hash(name(1)));
  CHECK_FALSE(IdIndex::decode(stored, world.inode() + 1));
  for (std::size_t i = 0; i < stored.size(); i += 97) {
    std::string damaged = stored;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x04);
    CHECK_FALSE(IdIndex::decode(damaged, world.inode()));
    CHECK_FALSE(IdIndex::decode(stored.substr(0, i), world.inode()));
  }
  const auto check_now = [&](std::size_t first) {
    auto transcript = world.open();
    CHECK(seq_of(*transcript, name(first)) == 0);
    CHECK(seq_of(*transcript, name(first + 5000)) == 5000);
    CHECK(seq_of(*transcript, name(77'777)) == -1);
    REQUIRE(transcript->ids());
    CHECK(transcript->ids()->contains(id_hash(name(first + 9999))));
  };
  SUBCASE("it is really used: one that tells a story is believed") {
    IdIndex other = *index;
    other.hashes[0] = id_hash("nobody");
    world.dir.write("index/t.jsonl.ids", encode_sidecar(other, world.inode()));
    CHECK(seq_of(*world.open(), name(0)) == -1);
    CHECK(seq_of(*world.open(), "nobody") == -1);  // the line decides
  }
  SUBCASE("appended since") {
    world.dir.append("t.jsonl", id_labels(10'000, 20'000));
    check_now(0);
    CHECK(seq_of(*world.open(), name(10'005)) == 10'005);
  }
  SUBCASE("another file with this name") {
    world.dir.write("other", index_header + id_labels(20'000, 30'000));
    fs::rename(world.dir.path() / "other", world.path);
    check_now(20'000);
  }
  SUBCASE("the same inode with other content") {
    world.dir.write("t.jsonl", index_header + id_labels(40'000, 60'000));
    check_now(40'000);
  }
  SUBCASE("it covers more than the file has") {
    fs::resize_file(world.path, index_header.size() + id_labels(0, 9000).size());
    auto transcript = world.open();
    CHECK(seq_of(*transcript, name(0)) == 0);
    CHECK(seq_of(*transcript, name(9500)) == -1);
  }
  SUBCASE("garbage, empty, a directory") {
    world.dir.write("index/t.jsonl.ids", "garbage");
    check_now(0);
    world.dir.write("index/t.jsonl.ids", "");
    check_now(0);
    fs::remove(sidecar);
    fs::create_directory(sidecar);
    check_now(0);
  }
}

TEST_CASE("indexed in pieces, a file is indexed as at once") {
  World world;
  std::string text = index_header;
  std::mt19937 random(3);
  for (std::size_t i = 0; i < 3000; ++i) text += label(i, i % 500 == 499 ? 3'000'000 : random() % 1000);
  world.dir.write("t.jsonl", text);
  Transcript pieces(world.path, world.sidecar);
  std::size_t steps = 1;
  for (;; ++steps) {
    const auto whole = pieces.refresh(1 << 20);
    REQUIRE(whole);
    if (*whole) break;
    if (steps == 5) world.dir.append("t.jsonl", label(3000));  // it grows meanwhile
  }
  CHECK(steps > 5);
  auto at_once = world.open();
  CHECK(pieces.tail().count == 3001);
  CHECK(pieces.tail().count == at_once->tail().count);
  CHECK(pieces.tail().size == at_once->tail().size);
  CHECK(pieces.tail().last_id == name(3000));
  for (const std::uint64_t seq : {0U, 63U, 64U, 499U, 500U, 2999U}) {
    const auto page = pieces.page({.before = seq + 1, .limit = 1, .descending = true});
    REQUIRE(page);
    CHECK(entry_id(page->lines.at(0).line, seq) == name(seq));
  }
}

TEST_CASE("sidecars are written again only when an index has grown a good deal") {
  World world;
  world.dir.write("t.jsonl", index_header + id_labels(0, 5000));
  auto transcript = world.open();
  CHECK(seq_of(*transcript, name(0)) == 0);
  REQUIRE(transcript->save_sidecars());
  const std::string lines = world.dir.read("index/t.jsonl.idx");
  world.dir.append("t.jsonl", id_labels(5000, 6000));
  REQUIRE(transcript->refresh());
  REQUIRE(transcript->save_sidecars());
  CHECK(world.dir.read("index/t.jsonl.idx") == lines);
  world.dir.append("t.jsonl", id_labels(6000, 60'000));
  REQUIRE(transcript->refresh());
  REQUIRE(transcript->save_sidecars());
  CHECK(world.dir.read("index/t.jsonl.idx") != lines);
}
