#include "daemon/runtime/log.hpp"

#include <doctest/doctest.h>

#include "store/json/raw_json.hpp"

using namespace sessiond;

TEST_CASE("logfmt lines cannot be forged by a value") {
  CHECK(log::line(log::Format::text, "started", {{"port", 7433}, {"host", "a.b"}}) == "msg=started port=7433 host=a.b");
  CHECK(log::line(log::Format::text, "x", {{"a", "b\nevent=y"}, {"c", ""}, {"d", "e\"f"}, {"g", "h=i"}}) ==
        R"(msg=x a="b\nevent=y" c="" d="e\"f" g="h=i")");
  CHECK(log::line(log::Format::text, "x", {{"n", -5}, {"s", std::string("{}")}}) == "msg=x n=-5 s={}");
}

TEST_CASE("JSON lines are JSON") {
  const std::string text = "{" + log::line(log::Format::json, "x", {{"a", "b\n\"\xff"}, {"n", 3u}}) + "}";
  CHECK(json::check(text, {.utf8 = true}));
  CHECK(*json::find(text, "n") == "3");
}

TEST_CASE("a token that stands in a path or an exception's text is masked") {
  const std::string token = "sd_ab12cd34_" + std::string(20, 'x') + std::string(23, 'Y');
  CHECK(log::line(log::Format::text, "x", {{"what", "GET /v1/" + token + "/y"}}) ==
        "msg=x what=\"GET /v1/(secret)/y\"");
  CHECK(!log::line(log::Format::json, "x", {{"what", token}}).contains(token));
}
