#include "daemon/cli/table.hpp"

#include <doctest/doctest.h>

using namespace sessiond::cli;

namespace {

const std::vector<Column> columns{
    {.title = "KEY", .may_shrink = true}, {.title = "N", .to_the_right = true}, {.title = "NAME", .may_shrink = true}};

}  // namespace

TEST_CASE("columns are as wide as they need to be, without spaces at the end") {
  CHECK(table(columns, {{"a", "1", "x"}, {"agent:main", "1000", ""}}, {}) ==
        "KEY            N  NAME\n"
        "a              1  x\n"
        "agent:main  1000\n");
  CHECK(table(columns, {}, 80) == "KEY  N  NAME\n");
}

TEST_CASE("columns are cut in the middle to fit, the last ones first") {
  const std::string key = "agent:main:slack:channel:c0123456789:thread:1700000000.0001";
  const std::string shown = table(columns, {{key, "1000", "Grüße an die Welt"}}, 40);
  CHECK(shown ==
        "KEY                      N  NAME\n"
        "agent:main…0000.0001  1000  Grüße … Welt\n");
  CHECK(table(columns, {{key, "1000", "short"}}, 10).find("agent:…") != std::string::npos);  // no narrower than 12
}

TEST_CASE("control characters cannot reach the terminal") {
  CHECK(without_controls("a\x1b[31mred\x7f\r\n\tb") == "a?[31mred????b");
  CHECK(without_controls("\xC2\x9B"
                         "31mé\xC2\xA0x") == "?31mé\xC2\xA0x");
  CHECK(table({{.title = "K"}}, {{"\x1b]0;title\x07"}}, {}) == "K\n?]0;title?\n");
}
