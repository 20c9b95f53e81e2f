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

TEST_CASE("what some readers take for the end of a line is an escape in JSON that is made here") {
  const std::string text =
      "a\xC2\x85"
      "b\xE2\x80\xA8"
      "c\xE2\x80\xA9"
      "d";
  CHECK(json::quote(text) == R"("a\u0085b\u2028c\u2029d")");
  CHECK(json::as_string(json::quote(text)) == text);
  json::ObjectWriter writer;
  writer.string("a", text);
  CHECK(writer.text() == R"({"a":"a\u0085b\u2028c\u2029d"})");
  std::string raw = "{\"" + text + "\":\"" + text + "\"}";
  bool line_ends = false;
  CHECK(json::check(raw, {.utf8 = true, .line_ends = &line_ends}));
  CHECK(line_ends);
  CHECK(json::has_line_ends(raw));
  json::escape_line_ends(raw);
  CHECK(raw == R"({"a\u0085b\u2028c\u2029d":"a\u0085b\u2028c\u2029d"})");
  CHECK_FALSE(json::has_line_ends(raw));
}

TEST_CASE("characters that resemble ends of lines stay as they are") {
  for (const std::string text :
       {"\xC2\x84\xC2\x86", "\xE2\x80\xA7\xE2\x80\xAA", "\xE2\x81\xA8", "\xC3\x85", "\xC2", "\xE2\x80"}) {
    CAPTURE(text);
    std::string same = text;
    json::escape_line_ends(same);
    CHECK(same == text);
  }
  CHECK(json::quote("\xE2\x80\xA6\xC2\xA9") == "\"\xE2\x80\xA6\xC2\xA9\"");
  bool line_ends = false;
  CHECK(json::check("\"\xE2\x80\xA6\"", {.utf8 = true, .line_ends = &line_ends}));
  CHECK_FALSE(line_ends);
}
