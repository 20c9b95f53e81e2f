#include "config/syntax.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using sessiond::config::parse_document;
using sessiond::config::pointer_to;

namespace {

std::string detail_of(std::string_view text) {
  const auto document = parse_document(text);
  if (document) return "no fault";
  CHECK(document.error().pointer.empty());
  return document.error().detail;
}

std::vector<std::string> duplicates_of(std::string_view text) {
  const auto document = parse_document(text);
  REQUIRE(document.has_value());
  return document->duplicates;
}

}  // namespace

TEST_CASE("comments, trailing commas and a byte order mark are read") {
  const auto document =
      parse_document("\xef\xbb\xbf// first\n{ /* a */ \"a\" : [1, 2,], // b\n \"b\":{\"c\":null,},} // end");
  REQUIRE(document.has_value());
  CHECK(document->root.at("a").as_array().size() == 2);
  CHECK(document->root.at("b").at("c").is_null());
  CHECK(document->duplicates.empty());
  CHECK(parse_document("{\"a\":1}\n// no newline at the end").has_value());
}

TEST_CASE("syntax errors name line, column and what stands there") {
  CHECK(detail_of("{\n  \"a\": 1\n  \"b\": 2\n}") == "line 3, column 3: syntax error, found '\"'");
  CHECK(detail_of("{\"äöü\": }") == "line 1, column 9: syntax error, found '}'");  // characters, not bytes
  CHECK(detail_of("") == "line 1, column 1: incomplete JSON, the text ends here");
  CHECK(detail_of("// nothing but a comment\n").starts_with("line 2, column 1: incomplete JSON"));
  CHECK(detail_of("{\"a\":[1,\n2").starts_with("line 2, column 2: incomplete JSON"));
  CHECK(detail_of("{} {}") == "line 1, column 4: extra data, found '{'");
  CHECK(detail_of("{'a':1}") == "line 1, column 2: syntax error, found '''");
  CHECK(detail_of("{\"a\":\"\x01\"}").find("found byte 0x01") != std::string::npos);
  CHECK(detail_of("{\"a\":\"\xff\"}").find("found byte 0xff") != std::string::npos);
  CHECK(detail_of(std::string(40, '[') + std::string(40, ']')).find("too deep") != std::string::npos);
}

TEST_CASE("members given twice are found at any depth") {
  CHECK(duplicates_of(R"({"a":1,"b":2,"a":3})") == std::vector<std::string>{"/a"});
  CHECK(duplicates_of(R"({"a":1,"a":2,"a":3})") == std::vector<std::string>{"/a", "/a"});
  CHECK(duplicates_of(R"({"a":{"x":1},"b":{"x":1}})").empty());
  CHECK(duplicates_of(R"({"l":[1,{"m":"t","m":{"n":1,"n":2}},[{"k":0}],{"k":0,"k":1}]})") ==
        std::vector<std::string>{"/l/1/m", "/l/1/m/n", "/l/3/k"});
  CHECK(duplicates_of(R"({"a":1,"\u0061":2})") == std::vector<std::string>{"/a"});  // the same name, written otherwise
  CHECK(duplicates_of(R"({"a/b~c":1,"a/b~c":2,"":1,"":2})") == std::vector<std::string>{"/a~1b~0c", "/"});
}

TEST_CASE("long names and strings arrive whole") {
  const std::string name(5000, 'n');
  const auto document = parse_document("{\"" + name + "\":\"" + name + "\",\"" + name + "\":\"\\u00e9" + name + "\"}");
  REQUIRE(document.has_value());
  CHECK(document->duplicates == std::vector<std::string>{"/" + name});
  CHECK(document->root.at(name).as_string().size() == 5002);
}

TEST_CASE("cut anywhere, a text never passes for a whole one") {
  const std::string text = R"({"a":[1,{"b":"c\n"}],/* x */"d":{"e":true}})";
  for (std::size_t size = 0; size < text.size(); ++size) CHECK_FALSE(parse_document(text.substr(0, size)).has_value());
  CHECK(parse_document(text).has_value());
}

TEST_CASE("pointers are escaped") {
  CHECK(pointer_to("", "a") == "/a");
  CHECK(pointer_to("/a", "~/") == "/a/~0~1");
}
