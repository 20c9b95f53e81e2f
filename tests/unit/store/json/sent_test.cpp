#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/json/raw_json.hpp"

using namespace sessiond;

TEST_CASE("halves of surrogate pairs that stand alone are sent as U+FFFD") {
  const std::vector<std::pair<std::string_view, std::string_view>> cases{
      {R"("plain")", R"("plain")"},
      {R"("\ud83d\ude00")", R"("\ud83d\ude00")"},
      {R"("\uD83D\uDE00 \u00e9")", R"("\uD83D\uDE00 \u00e9")"},
      {R"("a\ud83d")", R"("a\ufffd")"},
      {R"("\ude00a")", R"("\ufffda")"},
      {R"("\ud83d\u2026")", R"("\ufffd\u2026")"},
      {R"("\ud83d\ud83d\ude00")", R"("\ufffd\ud83d\ude00")"},
      {R"("\ude00\ud83d")", R"("\ufffd\ufffd")"},
      {R"("\\ud83d")", R"("\\ud83d")"},
      {R"("\\\ud83d")", R"("\\\ufffd")"},
      {R"({"\udfff":["\uDBFF"]})", R"({"\ufffd":["\ufffd"]})"},
      {R"("\ud8)", R"("\ud8)"},
      {"\"\\ud83d \xff\"", "\"\\ufffd \xEF\xBF\xBD\""},
      {"\"\xff\"", "\"\xEF\xBF\xBD\""},
  };
  for (const auto& [stored, sent] : cases) {
    CAPTURE(stored);
    std::string held;
    CHECK(json::as_sent(stored, held) == sent);
    CHECK(json::as_sent(sent, held).data() == sent.data());
  }
}
