#include "transcripts/memory_transcript.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <random>

#include "tests/unit/temp_dir.hpp"

using namespace sessiond;
using namespace sessiond::transcripts;
using sessiond::testing::TempDir;

namespace {

std::vector<std::uint64_t> seqs(const TranscriptPage& page) {
  std::vector<std::uint64_t> out;
  for (const StoredLine& line : page.lines) out.push_back(line.seq);
  return out;
}

}  // namespace

TEST_CASE("a transcript in memory reads as the same lines in a file") {
  const TempDir dir;
  MemoryTranscript memory;
  memory.add_header("{\"type\":\"session\",\"version\":3,\"id\":\"s\"}\n");
  for (int number = 0; number < 40; ++number) {
    const std::string type = number % 3 == 0 ? "custom" : "message";
    memory.add("{\"type\":\"" + type + "\",\"id\":\"id" + std::to_string(number) +
                   "\",\"parentId\":null,\"message\":{\"role\":\"user\",\"content\":\"" +
                   std::string(static_cast<std::size_t>(number) * 2000, 'x') + "\"}}\n",
               number);
  }
  CHECK(memory.count() == 40);
  CHECK(memory.updated_at() == 39);
  std::ofstream(dir.path() / "t.jsonl") << memory.text();
  auto opened = Transcript::open(dir.path() / "t.jsonl", {});
  REQUIRE(opened);
  Transcript& file = **opened;
  std::minstd_rand random{7};
  for (int round = 0; round < 400; ++round) {
    PageQuery query{.limit = 1 + random() % 50, .descending = random() % 2 == 0};
    if (random() % 2 == 0) query.after = random() % 45;
    if (random() % 2 == 0) query.before = random() % 45;
    if (random() % 3 == 0) query.types = {"custom"};
    if (random() % 3 == 0) query.scan_limit = 1 + random() % 20;
    const auto one = memory.page(query);
    const auto other = file.page(query);
    REQUIRE(one);
    REQUIRE(other);
    CHECK(seqs(*one) == seqs(*other));
    CHECK(one->has_more == other->has_more);
    CHECK(one->next == other->next);
    for (std::size_t index = 0; index < one->lines.size(); ++index) {
      CHECK(one->lines[index].line == other->lines[index].line);
      CHECK(memory.show(one->lines[index]) == file.show(other->lines[index]));
    }
  }
  for (const std::string id : {"id0", "id39", "none"}) {
    const auto one = memory.find(id);
    const auto other = file.find(id);
    REQUIRE(one);
    REQUIRE(other);
    REQUIRE(one->has_value() == other->has_value());
    if (*one) CHECK((**one).line == (**other).line);
  }
  CHECK(memory.ids().contains(id_hash("id12")));
  CHECK_FALSE(memory.ids().contains(id_hash("none")));
}

TEST_CASE("a copy stays as it is while the transcript grows") {
  MemoryTranscript memory;
  memory.add_header("{\"type\":\"session\"}\n");
  std::vector<MemoryTranscript> copies;
  std::vector<std::string> texts;
  for (int number = 0; number < 300; ++number) {
    if (number % 60 == 0) {
      copies.push_back(memory);
      texts.push_back(memory.text());
    }
    memory.add("{\"id\":\"id" + std::to_string(number) + "\",\"x\":\"" + std::string(1000, 'x') + "\"}\n", number);
  }
  for (std::size_t at = 0; at < copies.size(); ++at) {
    CHECK(copies[at].count() == at * 60);
    CHECK(copies[at].text() == texts[at]);
    CHECK(copies[at].bytes() == texts[at].size());
    CHECK_FALSE((*copies[at].find("id" + std::to_string(at * 60))).has_value());
  }
  CHECK(memory.count() == 300);
  for (const std::string id : {"id0", "id64", "id299"}) CHECK((*memory.find(id)).has_value());
  const std::vector<std::string> wanted{"id3", "id250", "none"};
  CHECK(memory.find(wanted)->size() == 2);
}

TEST_CASE("an empty one") {
  const MemoryTranscript memory;
  CHECK(memory.page({})->lines.empty());
  CHECK_FALSE(memory.find("x")->has_value());
  CHECK(memory.text().empty());
}
