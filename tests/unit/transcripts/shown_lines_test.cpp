#include "transcripts/shown_lines.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "transcripts/entry.hpp"

using namespace sessiond;
using namespace sessiond::transcripts;

TEST_CASE("a line is shown from memory as view_entry shows it, whatever was at its seq before") {
  const std::vector<std::string> lines{
      R"({"type":"message","id":"a","timestamp":"2026-11-21T22:00:00.000Z","message":{"role":"user","content":"x"}})",
      R"({"type":"message","id":"b","timestamp":"2026-11-21T22:00:00.000Z","message":{"role":"user","content":"x"}})",
      R"({"type":"message","id":"a","id":"c","\u0074imestamp":"2026-11-21T22:00:00\u005a","message":{"s\u0065q":1}})",
      R"({"role":"user","content":"flat"})",
      R"({"type":"assistant","role":"user","content":"flat"})",
      R"({"type":"custom","seq":7,"id":"e","parentId":"d","timestamp":1.5})",
      "{\"type\":\"message\",\"id\":\"\xFF\",\"message\":{\"role\":\"user\",\"content\":\"\xC3(\"}}",
      R"({"type":"message","message":{"timestamp":"no time")",
      R"({"timestamp":"\u0032026"} and more)",
      "{}",
      "[]",
      "",
      R"({"type":"message","id":"long","message":{"content":")" + std::string(5000, 'x') + "\"}}"};
  ShownLines shown;
  for (int round = 0; round < 2; ++round) {
    for (const std::uint64_t seq : {0U, 0U, 1U, 64U, 1U}) {
      for (const std::string& line : lines) {
        CAPTURE(line);
        const auto expected = view_entry(line, seq, View::full);
        CHECK(shown.show(line, seq) == expected);
        CHECK(shown.show(line, seq) == expected);
      }
    }
  }
  for (std::uint64_t seq = 0; seq < 200; ++seq)
    CHECK(shown.show(lines[seq % lines.size()], seq) == view_entry(lines[seq % lines.size()], seq, View::full));
}
