#include "policy/reset.hpp"

#include <doctest/doctest.h>

#include <limits>

using namespace sessiond;

TEST_CASE("triggers") {
  const std::vector<std::string> triggers{"/new", " /Reset ", "", "/new chat", "新"};
  struct Case {
    std::string_view text;
    std::optional<std::string_view> rest;
  };
  const std::vector<Case> cases{{"/new", ""},
                                {"  /NEW \n", ""},
                                {"/new hello  world ", "hello  world"},
                                {"/new\nhello", "hello"},
                                {"/new\thello", "hello"},
                                {"/newest", std::nullopt},
                                {"say /new", std::nullopt},
                                {"/reset", ""},
                                {"/new chat about x", "about x"},
                                {"/new chatty", "chatty"},
                                {"新 话题", "话题"},
                                {"新话题", std::nullopt},
                                {"", std::nullopt},
                                {"   ", std::nullopt},
                                {"/", std::nullopt}};
  for (const Case& one : cases) {
    CAPTURE(one.text);
    CHECK(match_trigger(one.text, triggers) == one.rest);
  }
  CHECK(match_trigger("/new", {}) == std::nullopt);
}

TEST_CASE("idle") {
  const auto due = [](std::int64_t minutes, std::int64_t last, std::int64_t now) {
    return name(reset_due({.mode = ResetRule::Mode::idle, .idle_minutes = minutes}, last, now, 0));
  };
  CHECK(due(60, 0, 3'599'999) == "");
  CHECK(due(60, 0, 3'600'000) == "idle");
  CHECK(due(60, 5'000'000, 0) == "");  // the clock went back
  CHECK(due(0, 0, 1'000'000'000) == "");
  CHECK(due(-5, 0, 1'000'000'000) == "");
  constexpr auto lowest = std::numeric_limits<std::int64_t>::min();
  constexpr auto highest = std::numeric_limits<std::int64_t>::max();
  CHECK(due(highest, lowest, highest) == "");
  CHECK(due(1, lowest, highest) == "idle");
  CHECK(name(reset_due({.mode = ResetRule::Mode::none, .idle_minutes = 1}, 0, highest, 0)) == "");
}

TEST_CASE("daily: a reset hour lies between") {
  constexpr std::int64_t hour = 3'600'000;
  constexpr std::int64_t midnight = 1'795'219'200'000;  // 2026-11-21T00:00:00Z
  const auto due = [](int at_hour, std::int64_t last, std::int64_t now, int offset = 0) {
    return name(reset_due({.mode = ResetRule::Mode::daily, .idle_minutes = 1, .at_hour = at_hour}, last, now, offset));
  };
  CHECK(due(4, midnight + 3 * hour, midnight + 4 * hour - 1) == "");
  CHECK(due(4, midnight + 3 * hour, midnight + 4 * hour) == "daily");
  CHECK(due(4, midnight + 4 * hour, midnight + 27 * hour) == "");
  CHECK(due(4, midnight + 4 * hour - 1, midnight + 4 * hour) == "daily");
  CHECK(due(4, midnight + 5 * hour, midnight + 5 * hour) == "");
  CHECK(due(4, midnight + 5 * hour, midnight) == "");
  CHECK(due(0, midnight - 1, midnight) == "daily");
  CHECK(due(23, midnight + 22 * hour, midnight + 23 * hour) == "daily");
  CHECK(due(4, midnight, midnight + 100 * 24 * hour) == "daily");
  // 04:00 in UTC+2 is 02:00 UTC; in UTC-5:30 it is 09:30 UTC.
  CHECK(due(4, midnight + hour, midnight + 2 * hour, 120) == "daily");
  CHECK(due(4, midnight + 2 * hour, midnight + 4 * hour, 120) == "");
  CHECK(due(4, midnight + 9 * hour, midnight + 9 * hour + hour / 2, -330) == "daily");
  // Before 1970 too: stores hold any time.
  CHECK(due(4, -24 * hour, 3 * hour) == "daily");
  CHECK(due(4, -20 * hour, 3 * hour) == "");
  CHECK(due(4, std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()) == "daily");
}

TEST_CASE("what a reset keeps") {
  for (const char* field : {"channel",
                            "lastChannel",
                            "lastTo",
                            "lastAccountId",
                            "lastThreadId",
                            "deliveryContext",
                            "origin",
                            "label",
                            "name",
                            "displayName",
                            "chatType",
                            "groupId",
                            "subject",
                            "groupChannel",
                            "space",
                            "sendPolicy",
                            "groupActivation",
                            "modelOverride",
                            "providerOverride",
                            "authProfileOverride",
                            "authProfileOverrideSource",
                            "thinkingLevel",
                            "verboseLevel",
                            "reasoningLevel",
                            "elevatedLevel",
                            "execHost",
                            "execSecurity",
                            "execAsk",
                            "execNode",
                            "queueMode",
                            "queueDebounceMs",
                            "queueCap",
                            "queueDrop",
                            "responseUsage",
                            "ttsAuto",
                            "skillsSnapshot",
                            "spawnedBy",
                            "status",
                            "model",
                            "modelProvider",
                            "totalTokensFresh",
                            "x-custom",
                            "",
                            "日本"}) {
    CAPTURE(field);
    CHECK(kept_on_reset(field));
  }
  for (const char* field :
       {"sdkSessionId", "cliSessionIds", "claudeCliSessionId", "inputTokens", "outputTokens", "totalTokens",
        "contextTokens", "compactionCount", "messageCount", "systemSent", "abortedLastRun", "lastHeartbeatText",
        "lastHeartbeatSentAt", "memoryFlushAt", "memoryFlushCompactionCount", "sessionFile", "archivedAt"}) {
    CAPTURE(field);
    CHECK_FALSE(kept_on_reset(field));
  }
}

TEST_CASE("the successor of an entry") {
  constexpr std::string_view entry =
      R"({"sessionId":"s","updatedAt":1,"sdkSessionId":null,"label":"\ud83d","x":1e400,"s\u0079stemSent":true,"channel":"slack",)"
      R"("origin":{"a":1},"inputTokens":5,"sendPolicy":"deny","displayName":"d","spawnedBy":"k","groupId":"g"})";
  CHECK(
      json::apply(entry, reset_edit(entry, true)) ==
      R"({"sessionId":"s","updatedAt":1,"label":"\ud83d","x":1e400,"channel":"slack","origin":{"a":1},"sendPolicy":"deny",)"
      R"("displayName":"d","spawnedBy":"k","groupId":"g"})");
  CHECK(json::apply(entry, reset_edit(entry, false)) ==
        R"({"sessionId":"s","updatedAt":1,"channel":"slack","origin":{"a":1},"spawnedBy":"k","groupId":"g"})");
  CHECK(reset_edit("{}", true).empty());
  CHECK(reset_edit(R"({"sessionId":"s"})", false).empty());
}
