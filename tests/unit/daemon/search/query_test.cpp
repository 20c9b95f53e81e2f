#include "daemon/search/query.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "daemon/search/grams.hpp"
#include "daemon/search/message_text.hpp"
#include "store/utf8.hpp"

using namespace sessiond;
using namespace sessiond::search;

namespace {

bool finds(std::string_view query, std::string_view text) {
  const auto words = Words::parse(query);
  REQUIRE(words.has_value());
  return words->in(folded(text));
}

}  // namespace

TEST_CASE("words, phrases and what is syntax nowhere") {
  CHECK(finds("hello world", "World, HELLO"));
  CHECK_FALSE(finds("\"hello world\"", "World, HELLO"));
  CHECK(finds("\"Hello World\"", "oh hello world"));
  CHECK(finds("\"a  b\"", "x A\n\t b y"));
  CHECK(finds("a\u3000b", "b a"));
  CHECK(finds("\"a\u3000b\"", "A\u00a0B"));
  CHECK_FALSE(finds("\"a b\"", "ab"));
  CHECK(finds("ell", "hello"));
  CHECK(finds("京", "東京都"));
  CHECK(finds("a\"b c\"", "xx b c a"));
  for (const char* plain : {"OR", "-x", "x*", "(", "NEAR(a)", "text:a", "'; DROP TABLE rows"}) {
    CAPTURE(plain);
    CHECK(finds(plain, "1 OR -x x* ( NEAR(a) text:a '; DROP TABLE rows"));
  }
  CHECK_FALSE(finds("OR", "nothing"));
}

TEST_CASE("case is folded simply, one code point to one") {
  for (const auto& [query, text] : std::vector<std::pair<std::string, std::string>>{{"STRAẞE", "straße"},
                                                                                    {"straße", "STRAẞE"},
                                                                                    {"ΣΊΣΥΦΟΣ", "σίσυφος"},
                                                                                    {"σίσυφοσ", "ΣΊΣΥΦΟΣ"},
                                                                                    {"ſet", "SET"},
                                                                                    {"ÉCOLE", "école"},
                                                                                    {"µ", "Μ"},
                                                                                    {"K", "k"},
                                                                                    {"ǅ", "ǆ"}}) {
    CAPTURE(query);
    CHECK(finds(query, text));
  }
  for (const auto& [query, text] : std::vector<std::pair<std::string, std::string>>{
           {"STRAẞE", "strasse"}, {"straße", "STRASSE"}, {"İ", "i"}, {"ı", "I"}, {"é", "e"}, {"é", "e\u0301"}}) {
    CAPTURE(query);
    CHECK_FALSE(finds(query, text));
  }
}

TEST_CASE("what is no query is refused with its place") {
  const auto detail = [](std::string_view query) { return Words::parse(query).error().detail; };
  CHECK(detail("ab \"c d") == "q: the quote at byte 3 is not closed");
  CHECK(detail("ab\x07") == "q: has a control character at byte 2");
  CHECK(detail("é\x7f") == "q: has a control character at byte 2");
  CHECK(detail("\u0080") == "q: has a control character at byte 0");
  CHECK(Words::parse("a\u0085b").has_value());  // white space
  for (const std::string& bad : {std::string(), std::string(" \t\n"), std::string("\"\""), std::string("\"\" \"\""),
                                 std::string(most_query_bytes + 1, 'x'), std::string("a\0b", 3), std::string("\xff"),
                                 std::string("\" \""), std::string("a\""), std::string("\u3000")}) {
    CAPTURE(bad);
    const auto words = Words::parse(bad);
    REQUIRE_FALSE(words.has_value());
    CHECK(words.error().code == Code::bad_request);
  }
  std::string many;
  for (std::size_t n = 0; n <= most_words; ++n) many += "a ";
  CHECK_FALSE(Words::parse(many).has_value());
}

TEST_CASE("the grams of words are in order, and none of words that are too short") {
  using Grams = std::vector<std::string>;
  CHECK(Words::parse("ab x 日本")->grams().empty());
  CHECK(Words::parse("abcd ef")->grams() == Grams{"abc", "bcd"});
  CHECK(Words::parse("日本語x")->grams() == Grams{"日本語", "本語x"});
  CHECK(Words::parse("a\"\"b\"\"c ABC")->grams() == Grams{"abc"});
  CHECK(Words::parse("\"ab cd\"")->grams() == Grams{"ab ", "b c", " cd", "ab cd"});
  CHECK(Words::parse("\"日本 cd\"")->grams() == Grams{"日本 ", "本 c", " cd", "日本 cd"});
  CHECK(Words::parse("\"b cd\"")->grams() == Grams{"b c", " cd"});
}

TEST_CASE("the grams of a phrase are among those of each text that has it") {
  std::mt19937 dice(7);
  const std::vector<std::string> letters{"a", "b", " ", "é", "日", "\n", "\""};
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::string> points;
    for (unsigned count = dice() % 20; count > 0; --count) points.push_back(letters[dice() % letters.size()]);
    const std::size_t from = points.empty() ? 0 : dice() % points.size();
    const std::size_t to = from + dice() % (points.size() - from + 1);
    std::string text, phrase;
    for (std::size_t at = 0; at < points.size(); ++at) {
      text += points[at];
      if (at >= from && at < to) phrase += points[at];
    }
    CAPTURE(text);
    CAPTURE(phrase);
    const auto all = grams_of(text);
    CHECK(std::ranges::all_of(grams_of(phrase), [&](auto gram) { return std::ranges::find(all, gram) != all.end(); }));
  }
}

TEST_CASE("the rarest grams are asked for, quoted, each once, and not more than help") {
  const auto counted = std::make_unique<Grams>();
  CHECK(counted->choose({}).empty());
  CHECK(counted->choose({"abc", "abc"}) == "\"abc\"");
  CHECK(counted->choose({"a\"b"}) == "\"a\"\"b\"");
  for (int text = 0; text < 1000; ++text) {
    counted->count("and then");
    if (text % 10 == 0) counted->count("ten");
  }
  CHECK(counted->choose({"and", "the", "rar"}) == "\"rar\"");  // one text in a thousand: the others would spare nothing
  CHECK(counted->choose({"and", "the"}).starts_with("\"and\""));
  const std::string many = counted->choose(Words::parse("abcdefghijklmnopqrstuvwxyz0123456789")->grams());
  CHECK(std::ranges::count(many, ' ') <= 7);
}

TEST_CASE("a snippet is one line about the first word, whole characters, bounded") {
  CHECK(Words::parse("word")->snippet("a Word\n  b\x01\x7f").text == "a Word b  ");
  const std::string before(400, 'x');
  const std::string long_text = before + " 日本語 " + before;
  const std::string snippet = Words::parse("本語")->snippet(long_text).text;
  CHECK(snippet.contains("日本語"));
  CHECK(snippet.starts_with("…"));
  CHECK(snippet.ends_with("…"));
  CHECK_FALSE(store::invalid_utf8(snippet));
  CHECK(store::count_code_points(snippet) <= snippet_points);
  // A text whose folding has other lengths in bytes.
  const std::string odd = "İSTANBUL ÉÉÉ straße needle end";
  CHECK(Words::parse("needle")->snippet(odd).text == odd);
  CHECK(Words::parse("absent")->snippet("short").text == "short");
}

TEST_CASE("a snippet says where its words stand, in code points") {
  using Ranges = std::vector<Snippet::Range>;
  const auto ranges = [](std::string_view query, std::string_view text) {
    return Words::parse(query)->snippet(text).ranges;
  };
  CHECK(ranges("word", "a Word, words") == Ranges{{2, 4}, {8, 4}});
  CHECK(ranges("straße é", "É STRAẞE") == Ranges{{0, 1}, {2, 6}});
  CHECK(ranges("aa", "xaaaax") == Ranges{{1, 4}});
  CHECK(ranges("abc bcd", "abcd") == Ranges{{0, 4}});
  CHECK(ranges("\"a b\"", "a  \n b") == Ranges{{0, 3}});
  CHECK(ranges("absent", "short").empty());
  const std::string before(400, 'x');
  const Snippet cut = Words::parse("本語")->snippet(before + "日本語" + before + "本語");
  REQUIRE(cut.ranges.size() == 1);
  std::string_view marked = cut.text;
  marked.remove_prefix(store::code_points_end(marked, cut.ranges[0].at));
  CHECK(marked.starts_with("本語"));
  const Snippet whole = Words::parse('"' + std::string(600, 'y') + '"')->snippet("a" + std::string(600, 'y'));
  CHECK(whole.ranges == Ranges{{1, snippet_points - 2}});
}

TEST_CASE("which part of an entry is found") {
  const auto text = [](std::string_view message) { return read_message(message, 100).text; };
  CHECK(text(R"({"type":"message","role":"user","content":"hi"})") == "hi");
  CHECK(text(R"({"type":"message","role":"assistant","content":[{"type":"thinking","thinking":"no"},)"
             R"({"type":"text","text":"a"},{"type":"toolCall","arguments":{"x":"no"}},{"type":"text","text":"b"}]})") ==
        "a\nb");
  CHECK(text(R"({"type":"message","role":"toolResult","content":[{"type":"text","text":"result"}]})") == "result");
  CHECK(
      text(
          R"({"type":"message","role":"user","content":[{"type":"tool_result","content":[{"type":"text","text":"in"}]}]})") ==
      "in");
  CHECK(text(R"({"type":"message","role":"system","content":"no"})").empty());
  CHECK(text(R"({"type":"custom","role":"user","content":"no"})").empty());
  CHECK(text(R"({"type":"message","role":"user","content":{"odd":1}})").empty());
  CHECK(text(R"({"type":"message","role":"user"})").empty());
  CHECK(text(R"({"type":"message","role":"user","content":"a\u0000b"})") == "a b");
  CHECK(text(R"({"type":"custom","customType":"note","data":{"text":"noted","by":"me"}})") == "noted");
  CHECK(text(R"({"type":"custom","customType":"note","text":"no"})").empty());
  CHECK(text(R"({"type":"custom","customType":"sessiond.edit","data":{"text":"no"}})").empty());
  const std::string cut = read_message(R"({"type":"message","role":"user","content":"日本語"})", 5).text;
  CHECK(cut == "日");
}

TEST_CASE("changes of messages") {
  const auto edit = read_change(R"({"target":{"sessionId":"s","seq":4,"id":"e"},"text":"new"})", false, 100);
  REQUIRE(edit.has_value());
  CHECK(edit->session_id == "s");
  CHECK(edit->seq == 4);
  CHECK(edit->entry == "e");
  CHECK(edit->text == "new");
  CHECK_FALSE(edit->deleted);
  CHECK(read_change(R"({"target":{"sessionId":"s","seq":0,"topic":"t"}})", true, 9)->deleted);
  for (const char* none : {"{}", "3", R"({"target":{"sessionId":"s","seq":-1}})", R"({"target":3})", "[]"}) {
    CAPTURE(none);
    CHECK_FALSE(read_change(none, false, 9).has_value());
  }
}
