#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "store/json/raw_json.hpp"
#include "store/sessions/sessions_file.hpp"

using namespace sessiond;

TEST_CASE("values are the same by what they say") {
  const std::vector<std::vector<std::string>> groups{
      {R"("é")", R"("\u00e9")", R"("\u00E9")"},
      {R"("😀")", R"("\ud83d\ude00")"},
      {R"("a/b")", R"("a\/b")", R"("\u0061/b")"},
      {R"("\n\t\b\f\r\"\\")", R"("\u000a\u0009\u0008\u000c\u000d\u0022\u005c")"},
      {R"("\ud83d")"},
      {R"("\ude00")"},
      {R"("\ud83d\ud83d")"},
      {R"("\ufffd")", "\"\xEF\xBF\xBD\""},
      {"\"\xFF\""},
      {"\"\xFE\""},
      {"\"\"", R"("")"},
      {"1", "1.0", "1e0", "10e-1", "0.1E+1"},
      {"-1", "-1.00"},
      {"0", "-0", "0.0", "0e5"},
      {"1000", "1e3", "1.0e3"},
      {"12345678901234567890"},
      {"12345678901234567891"},  // as doubles these two are one
      {"12345678901234567000", "12345678901234567e3"},
      {"1e400"},
      {"1e401"},
      {"1e99999999999"},
      {"2e99999999999"},
      {"true"},
      {"false"},
      {"null"},
      {"[]"},
      {"[1,2]", "[1.0, 2]"},
      {"[2,1]"},
      {"[1]"},
      {"{}", "{ }"},
      {R"({"a":1,"b":"é"})", R"({"b":"\u00e9","a":1.0})", R"({"a":2,"\u0062":"é","a":1})"},
      {R"({"a":1})"},
      {R"({"a":1,"b":null})"},
      {R"({"a":{"b":[{"c":"é"}]}})", "{ \"a\" : {\"b\" : [ {\"c\":\"\\u00e9\"}]}}"},
  };
  for (std::size_t left = 0; left < groups.size(); ++left) {
    for (std::size_t right = 0; right < groups.size(); ++right) {
      for (const std::string& a : groups[left]) {
        for (const std::string& b : groups[right]) {
          CAPTURE(a);
          CAPTURE(b);
          CHECK(json::same(a, b) == (left == right));
        }
      }
    }
  }
}

TEST_CASE("deep values are compared, however deep") {
  const std::string open(4000, '[');
  const std::string close(4000, ']');
  CHECK(json::same(open + "1" + close, open + " 1 " + close));
  CHECK_FALSE(json::same(open + "1" + close, open + "2" + close));
}

TEST_CASE("an entry that is spelt anew is no change") {
  const auto named = [](std::string key, std::string_view entry) {
    return sessions::NamedEntry{.key = std::move(key), .entry = std::make_shared<const std::string>(entry)};
  };
  const std::vector<sessions::NamedEntry> base{named("k", R"({"label":"é","n":1.0,"o":{"x":1,"y":2}})"),
                                               named("l", R"({"a":1})")};
  const std::vector<sessions::NamedEntry> theirs{named("k", R"({"o":{"y":2,"x":1},"label":"\u00e9","n":1})"),
                                                 named("l", R"({"a":2})")};
  const sessions::ForeignChange change = sessions::diff_stores(base, theirs);
  REQUIRE(change.updated.size() == 1);
  CHECK(change.updated[0].key == "l");
  CHECK(sessions::merge_entry(R"({"a":"é"})", R"({"a":"é","b":1})", R"({"a":"\u00e9","c":1})") ==
        json::Edit{.set = {{"c", "1"}}, .unset = {}});
}
