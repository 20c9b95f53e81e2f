#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>

#include "store/files.hpp"
#include "store/sessions/sessions_file.hpp"

using namespace sessiond;
using namespace sessiond::sessions;

namespace {

std::vector<NamedEntry> parse(std::string_view text, std::size_t odd = 0) {
  std::vector<std::string> oddities;
  auto entries = parse_store(text, oddities);
  INFO(text.substr(0, 200));
  REQUIRE(entries);
  CHECK(oddities.size() == odd);
  return std::move(*entries);
}

}  // namespace

TEST_CASE("any layout is read; one is written, an entry a line") {
  const auto entries = parse(" {\"a\"\t:\r\n{ \"x\" : [ 1 , 2 ] , \"s\" : \" : , \" },\"b\":{}}\n\n");
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].key == "a");
  CHECK(*entries[0].entry == R"({"x":[1,2],"s":" : , "})");
  CHECK(entries[0].raw_name.empty());
  CHECK(format_store(entries) == "{\n\"a\": {\"x\":[1,2],\"s\":\" : , \"},\n\"b\": {}\n}\n");
  CHECK(format_store(parse(format_store(entries))) == format_store(entries));
  CHECK(format_store({}) == "{}\n");
  CHECK(parse(format_store({})).empty());
}

TEST_CASE("values keep their bytes") {
  for (const std::string_view value :
       {R"({"a":12345678901234567890123,"b":1e400,"c":-0.0,"d":1E-1})",
        R"({"lone":"\ud800","pair":"\ud83d\ude00","esc":"\/\u0041"})", R"({"dup":1,"dup":2,"":3})",
        "{\"bytes\":\"\xff\xfe\"}", "{\"text\":\"Zo\xc3\xab\"}"}) {
    const std::string text = fmt::format("{{\n\"k\": {}\n}}\n", value);
    CHECK(format_store(parse(text)) == text);
  }
}

TEST_CASE("keys are written as they were, whatever quoting would make of them") {
  for (const std::string_view name :
       {"agent:main:main", R"(a\/b)", R"(\u00e9)", "\xc3\xa9", R"(\ud800)", R"(x\udfffy)", "\xff", R"(\")", R"(\\)",
        R"(\u0041)", "", R"(\u0000)", "\x7f", R"(\b\f\n\r\t)"}) {
    CAPTURE(name);
    const std::string text = fmt::format("{{\n\"{}\": {{}}\n}}\n", name);
    CHECK(format_store(parse(text)) == text);
  }
  CHECK(parse(R"({"\u0041":{}})")[0].key == "A");
  CHECK(parse(R"({"a\"b":{}})")[0].key == "a\"b");
}

TEST_CASE("keys that are no text stay apart") {
  const auto entries = parse(R"({"\ud800":{"n":1},"\ud801":{"n":2},"\ufffd":{"n":3}})");
  REQUIRE(entries.size() == 3);
  CHECK(*entries[1].entry == R"({"n":2})");
}

TEST_CASE("of a key that stands there twice the last one counts, in the first one's place") {
  const auto entries = parse(R"({"a":{"n":1},"b":{},"\u0061":{"n":2}})", 1);
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].key == "a");
  CHECK(*entries[0].entry == R"({"n":2})");
}

TEST_CASE("entries that are no objects are kept and told") {
  const auto entries = parse(R"({"a":null,"b":[1, 2],"c":"x","d":{}})", 3);
  REQUIRE(entries.size() == 4);
  CHECK(*entries[0].entry == "null");
  CHECK(*entries[1].entry == "[1,2]");
}

TEST_CASE("a byte order mark is told and gone") {
  CHECK(format_store(parse("\xEF\xBB\xBF{\"a\":{}}", 1)) == "{\n\"a\": {}\n}\n");
}

TEST_CASE("what is no JSON object is damage") {
  const std::string nuls(4096, '\0');
  for (const std::string_view text :
       {std::string_view(""), std::string_view(" \n"), std::string_view(nuls), std::string_view("[]"),
        std::string_view("null"), std::string_view("\"{}\""), std::string_view("{"), std::string_view("{\"a\":{}"),
        std::string_view("{\"a\":{}}}"), std::string_view("{\"a\":{},}"), std::string_view("{'a':{}}"),
        std::string_view("{\"a\":{}} x"), std::string_view("\xEF\xBB\xBF"), std::string_view("{\"a\":{}}\0", 9)}) {
    CAPTURE(text);
    std::vector<std::string> oddities;
    const auto entries = parse_store(text, oddities);
    REQUIRE_FALSE(entries);
    CHECK(entries.error().code == Code::bad_request);
  }
}

TEST_CASE("every cut of a store is damage, never a smaller store") {
  const std::string text = format_store(parse(R"({"a":{"x":[1,"\ud800"]},"b":{"y":null}})"));
  for (std::size_t length = 0; length + 2 < text.size(); ++length) {
    std::vector<std::string> oddities;
    CHECK_FALSE(parse_store(std::string_view(text).substr(0, length), oddities));
  }
}

TEST_CASE("deep nesting is read as far as foreign files may go, and refused beyond without a crash") {
  const auto nested = [](std::size_t depth) {
    return "{\"a\":{\"x\":" + std::string(depth, '[') + std::string(depth, ']') + "}}";
  };
  CHECK(parse(nested(1000)).size() == 1);
  std::vector<std::string> oddities;
  CHECK_FALSE(parse_store(nested(1'000'000), oddities));
}
