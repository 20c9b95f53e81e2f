#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "store/json/raw_json.hpp"

using namespace sessiond;

TEST_CASE("a check gives the members that members() finds, of an object alone") {
  for (const std::string_view text : {R"({"a":1,"b":{"c":[1,{"d":2}]},"e":"x","a":null})", "{}",
                                      R"( { "a" : [ ] , "b\u0063" : { } , "d" : -1.5e3 } )", R"([{"a":1},{"b":2}])",
                                      R"("text")", R"({"only":{"inner":{"deep":true}}})"}) {
    std::vector<json::Member> members{{.name = "of before", .value = "1"}};
    REQUIRE(json::check(text, {.members = &members}));
    std::vector<json::Member> expected;
    if (json::kind(text.substr(text.find_first_not_of(' '))) == json::Kind::object)
      for (const json::Member& member : json::members(text)) expected.push_back(member);
    REQUIRE(members.size() == expected.size());
    for (std::size_t index = 0; index < members.size(); ++index) {
      CHECK(members[index].name == expected[index].name);
      CHECK(members[index].value == expected[index].value);
      CHECK(members[index].value.data() == expected[index].value.data());
    }
  }
}

TEST_CASE("a check names the byte at which the text stops being JSON, and why") {
  struct Fault {
    std::string_view text;
    std::size_t offset;
    std::string_view detail;
  };
  for (const Fault& fault :
       {Fault{"", 0, "unexpected end"}, Fault{"{", 1, "unexpected end"}, Fault{R"({"a")", 4, "unexpected end"},
        Fault{R"({"a":)", 5, "unexpected end"}, Fault{R"({"a":1,})", 7, "unexpected '}'"},
        Fault{"[1,]", 3, "unexpected ']'"}, Fault{"[1 2]", 3, "unexpected '2'"}, Fault{"[1}", 2, "unexpected '}'"},
        Fault{R"({"a":1]})", 6, "unexpected ']'"}, Fault{"1 2", 2, "unexpected text after the value"},
        Fault{"[[[0]]]", 2, "nested deeper than 2"}, Fault{R"({"a":1,"\u0061":2})", 7, R"(duplicate name "a")"},
        Fault{"[tru]", 1, "unexpected 't'"}, Fault{"[1.]", 3, "unexpected ']'"}}) {
    CAPTURE(fault.text);
    const auto checked = json::check(fault.text, {.max_depth = 2, .unique_names = true});
    REQUIRE_FALSE(checked);
    CHECK(checked.error().offset == fault.offset);
    CHECK(checked.error().detail == fault.detail);
  }
}
