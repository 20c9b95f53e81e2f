// In which transcript each line was first written, as headers of copies say.
#include "transcripts/origins.hpp"

#include <doctest/doctest.h>

using namespace sessiond;
using namespace sessiond::transcripts;

namespace {

std::string header_with(std::span<const CopiedLines> records) {
  return R"({"type":"session","copied":)" + copied_member(records) + "}";
}

}  // namespace

TEST_CASE("origins: a line is of the transcript that its record names, else of its own") {
  const std::vector<CopiedLines> records{{.name = transcript_name("a", {}), .first = 0, .last = 3},
                                         {.name = transcript_name("b", "t"), .first = 5, .last = 5}};
  const auto origins = Origins::read(transcript_name("c", {}), header_with(records));
  CHECK(origins.at(0) == transcript_name("a", {}));
  CHECK(origins.at(3) == transcript_name("a", {}));
  CHECK(origins.at(4) == transcript_name("c", {}));
  CHECK(origins.at(5) == transcript_name("b", "t"));
  CHECK(origins.at(6) == transcript_name("c", {}));
  CHECK(origins.names() == std::vector<std::string_view>{"c\n", "a\n", "b\nt"});
}

TEST_CASE("origins: a copy of a copy names the first transcript") {
  const std::vector<CopiedLines> records{{.name = "a\n", .first = 2, .last = 4}};
  const auto origins = Origins::read("b\n", header_with(records));
  const std::vector<Origins::Lines> all{{0, 6}};
  CHECK(origins.of_copy(all) == std::vector<CopiedLines>{{"b\n", 0, 1}, {"a\n", 2, 4}, {"b\n", 5, 6}});
  const std::vector<Origins::Lines> path{{0, 0}, {3, 3}, {6, 6}};
  CHECK(origins.of_copy(path) == std::vector<CopiedLines>{{"b\n", 0, 0}, {"a\n", 1, 1}, {"b\n", 2, 2}});
  const std::vector<Origins::Lines> in_row{{2, 2}, {4, 4}};
  CHECK(origins.of_copy(in_row) == std::vector<CopiedLines>{{"a\n", 0, 1}});
  CHECK(origins.of_copy({}).empty());
}

TEST_CASE("origins: records that cannot be read count as missing") {
  for (const char* record :
       {"7", "{}", R"({"sessionId":"a"})", R"({"sessionId":"a","firstSeq":3,"lastSeq":2})",
        R"({"sessionId":"a","firstSeq":-1,"lastSeq":2})", R"({"sessionId":"../a","firstSeq":0,"lastSeq":2})",
        R"({"sessionId":7,"firstSeq":0,"lastSeq":2})"})
    CHECK(Origins::read("c\n", std::string(R"({"copied":[)") + record + "]}").at(0) == "c\n");
  CHECK(Origins::read("c\n", R"({"copied":7})").at(0) == "c\n");
  CHECK(Origins::read("c\n", "").names() == std::vector<std::string_view>{"c\n"});
}

TEST_CASE("origins: the file with the changes of a transcript has its name") {
  CHECK(changes_file(transcript_name("a", {})) == "changes/a.jsonl");
  CHECK(changes_file(transcript_name("a", "t/u")) == "changes/a-topic-t%2Fu.jsonl");
  CHECK(!changes_file(transcript_name("../a", {})));
}
