// Which messages wait for an answer, and the names of messages on their platforms.
#include "daemon/decide/needs.hpp"

#include <doctest/doctest.h>

#include "daemon/decide/platform_message.hpp"

using namespace sessiond::decide;

TEST_CASE("needs: the first message of each topic, until an answer comes") {
  std::string needs = with_need("", {}, 3, 10);
  CHECK(needs == R"([{"seq":3,"topic":null,"since":10}])");
  CHECK(with_need(needs, {}, 4, 11) == needs);
  needs = with_need(needs, "t", 0, 12);
  CHECK(needs == R"([{"seq":3,"topic":null,"since":10},{"seq":0,"topic":"t","since":12}])");
  CHECK(without_need(needs, {}) == R"([{"seq":0,"topic":"t","since":12}])");
  CHECK(without_need(without_need(needs, {}), "t").empty());
  CHECK(without_need("{}", {}).empty());
  CHECK(without_need("[7]", {}).empty());
}

TEST_CASE("needs: a deleted message waits no more") {
  const std::string needs = R"([{"seq":3,"topic":null,"since":10},{"seq":0,"topic":"t","since":12}])";
  CHECK(after_deletion(needs, {.topic = {}, .deleted = 4, .next = 5}, 20) == needs);
  CHECK(after_deletion(needs, {.topic = "t", .deleted = 3}, 20) == needs);
  CHECK(after_deletion(needs, {.topic = {}, .deleted = 3}, 20) == R"([{"seq":0,"topic":"t","since":12}])");
  CHECK(after_deletion(needs, {.topic = "t", .deleted = 0, .next = 9}, 20) ==
        R"([{"seq":3,"topic":null,"since":10},{"seq":9,"topic":"t","since":20}])");
  CHECK(after_deletion("", {.deleted = 3}, 20).empty());
  CHECK(after_deletion("[7]", {.deleted = 3}, 20) == "[7]");
}

TEST_CASE("needs: an answer has a text and was not interrupted") {
  CHECK(transcripts::is_answer(R"({"role":"assistant","content":"x"})"));
  CHECK(transcripts::is_answer(R"({"role":"assistant","content":[{"type":"text","text":"x"}]})"));
  CHECK(!transcripts::is_answer(R"({"role":"user","content":"x"})"));
  CHECK(!transcripts::is_answer(R"({"role":"assistant","content":""})"));
  CHECK(!transcripts::is_answer(R"({"role":"assistant","content":[{"type":"toolCall"}]})"));
  CHECK(!transcripts::is_answer(R"({"role":"assistant"})"));
  CHECK(!transcripts::is_answer(R"({"role":"assistant","content":"x","state":"interrupted"})"));
}

TEST_CASE("platform_message: names are one if the messages are") {
  CHECK(platform_name("main", " Slack ", "Work", " P", "1") == platform_name("main", "slack", "work", "P ", "1"));
  CHECK(platform_name("main", "slack", "", "P", "1") != platform_name("main", "slack", "default", "P", "1"));
  CHECK(platform_name("main", "slack", "a\",\"peer\":\"P", "", "1") != platform_name("main", "slack", "a", "P", "1"));
  const MessagePlace place{.key = "k", .session_id = "s", .topic = "t", .entry_id = "e", .seq = 7};
  const auto read = read_place(place_json(place, "0badcafe-3"));
  REQUIRE(read);
  CHECK(read->topic == "t");
  CHECK(read->seq == 7);
  CHECK(!read_place(R"({"sessionKey":"k","sessionId":"s","topic":null,"seq":null,"messageId":null})"));
}
