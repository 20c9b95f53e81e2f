#include "policy/reset.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <string>

using namespace sessiond;
using namespace sessiond::policy;

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
    CHECK(match_trigger(one.text, triggers, false) == one.rest);
    CHECK(match_trigger(one.text, triggers, true) == one.rest);
  }
  CHECK(match_trigger("/new", {}, false) == std::nullopt);
}

TEST_CASE("a command may name the agent, where the agent was meant") {
  const std::vector<std::string> triggers{"/new", "reset"};
  for (const auto& [text, rest] :
       std::vector<std::pair<std::string_view, std::optional<std::string_view>>>{{"/new@my_bot", ""},
                                                                                 {"/NEW@my_bot hello ", "hello"},
                                                                                 {"/new@my_bot\nhello", "hello"},
                                                                                 {"/new@a-b.c 1", "1"},
                                                                                 {"/new@", std::nullopt},
                                                                                 {"/new@ bot", std::nullopt},
                                                                                 {"/new@bot!", std::nullopt},
                                                                                 {"/newest@bot", std::nullopt},
                                                                                 {"reset@bot", std::nullopt}}) {
    CAPTURE(text);
    CHECK(match_trigger(text, triggers, true) == rest);
    CHECK(match_trigger(text, triggers, false) == std::nullopt);
  }
}

TEST_CASE("idle") {
  const auto due = [](std::int64_t minutes, std::int64_t last, std::int64_t now) {
    return name(
        reset_due({.mode = ResetRule::Mode::idle, .idle_minutes = minutes}, {.last_interaction = last}, now, {}));
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
  CHECK(name(reset_due({.mode = ResetRule::Mode::none, .idle_minutes = 1}, {}, highest, {})) == "");
}

TEST_CASE("daily: a reset hour lies between") {
  constexpr std::int64_t hour = 3'600'000;
  constexpr std::int64_t midnight = 1'795'219'200'000;  // 2026-11-21T00:00:00Z
  const auto due = [](int at_hour, std::int64_t started, std::int64_t now, int offset_minutes = 0) {
    const auto offset = [offset_minutes](std::int64_t) { return offset_minutes * std::int64_t{60'000}; };
    return name(reset_due({.mode = ResetRule::Mode::daily, .at_hour = at_hour},
                          {.started = started, .last_interaction = started}, now, offset));
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

namespace {

// Local time by POSIX rules, as the C library reads them: what the daemon asks too.
struct Zone {
  explicit Zone(const char* rules) {
    if (const char* before = std::getenv("TZ")) kept = before;
    setenv("TZ", rules, 1);
    tzset();
  }
  ~Zone() {
    if (kept)
      setenv("TZ", kept->c_str(), 1);
    else
      unsetenv("TZ");
    tzset();
  }
  Zone(const Zone&) = delete;
  Zone& operator=(const Zone&) = delete;
  static std::int64_t offset(std::int64_t utc_ms) {
    const auto seconds = static_cast<std::time_t>(utc_ms / 1000);
    std::tm local{};
    localtime_r(&seconds, &local);
    return std::int64_t{local.tm_gmtoff} * 1000;
  }
  std::optional<std::string> kept{};
};

constexpr const char* berlin = "CET-1CEST,M3.5.0,M10.5.0/3";

std::int64_t utc(int month, int day, int hour, int minute = 0, int ms = 0) {
  using namespace std::chrono;
  const auto at = sys_days(year(2027) / month / day) + hours(hour) + minutes(minute) + milliseconds(ms);
  return duration_cast<milliseconds>(at.time_since_epoch()).count();
}

std::string_view due_in_berlin(int at_hour, std::int64_t started, std::int64_t now) {
  return name(reset_due({.mode = ResetRule::Mode::daily, .at_hour = at_hour},
                        {.started = started, .last_interaction = started}, now, Zone::offset));
}

}  // namespace

TEST_CASE("the daily boundary goes by the zone's offset at that moment, over changes of clocks") {
  const Zone zone(berlin);
  struct Case {
    int at_hour;
    std::int64_t started, now;
    std::string_view due;
  };
  const std::int64_t spring = utc(3, 27, 22);   // the evening before: clocks go from 02:00 to 03:00 at 01:00Z
  const std::int64_t autumn = utc(10, 30, 22);  // from 03:00 to 02:00 at 01:00Z
  const std::vector<Case> cases{{4, spring, utc(3, 28, 1, 59), ""},
                                {4, spring, utc(3, 28, 2), "daily"},
                                {4, autumn, utc(10, 31, 2, 59), ""},
                                {4, autumn, utc(10, 31, 3), "daily"},
                                {2, spring, utc(3, 28, 0, 59), ""},
                                {2, spring, utc(3, 28, 1), "daily"},  // skipped: right behind the change
                                {2, autumn, utc(10, 30, 23, 59), ""},
                                {2, autumn, utc(10, 31, 0), "daily"},  // twice: the first counts
                                {2, utc(10, 31, 0), utc(10, 31, 1), ""},
                                {2, utc(10, 31, 0), utc(10, 31, 23), ""},
                                {4, utc(3, 28, 2), utc(3, 29, 1, 59), ""},
                                {4, utc(3, 28, 2), utc(3, 29, 2), "daily"},
                                {4, utc(1, 5, 3), utc(1, 6, 2, 59), ""},
                                {4, utc(7, 5, 2), utc(7, 6, 1, 59), ""},
                                {3, spring, utc(3, 28, 0, 59), ""},
                                {3, spring, utc(3, 28, 1), "daily"},
                                {0, utc(3, 28, 1), utc(3, 28, 21, 59), ""},
                                {0, utc(3, 28, 1), utc(3, 28, 22), "daily"}};
  for (const Case& one : cases) {
    CAPTURE(one.at_hour);
    CAPTURE(one.started);
    CAPTURE(one.now);
    CHECK(due_in_berlin(one.at_hour, one.started, one.now) == one.due);
  }
}

TEST_CASE("clocks put back over midnight") {
  const Zone zone("XXX5YYY4,M3.2.0/0,M11.1.0/0");  // on 2027-11-07 from 00:00 (04:00Z) to 23:00 of the day before
  const auto due = [](std::int64_t started, std::int64_t now) {
    return name(reset_due({.mode = ResetRule::Mode::daily, .at_hour = 0}, {.started = started}, now, Zone::offset));
  };
  CHECK(due(utc(11, 7, 3), utc(11, 7, 4) - 1) == "");
  CHECK(due(utc(11, 7, 3), utc(11, 7, 5)) == "daily");
  CHECK(due(utc(11, 7, 5), utc(11, 8, 5) - 1) == "");
  CHECK(due(utc(11, 7, 5), utc(11, 8, 5)) == "daily");
}

TEST_CASE(
    "a session that began while the clock was ahead goes by its last interaction; one without a time is never due") {
  const ResetRule rule{.mode = ResetRule::Mode::daily, .at_hour = 4};
  const std::int64_t ahead = utc(12, 31, 0);
  CHECK(name(reset_due(rule, {.started = ahead, .last_interaction = utc(3, 1, 3)}, utc(3, 1, 5), {})) == "daily");
  CHECK(name(reset_due(rule, {.started = ahead, .last_interaction = utc(3, 1, 4)}, utc(3, 1, 5), {})) == "");
  CHECK(name(reset_due(rule, {.started = ahead, .last_interaction = ahead}, utc(3, 1, 5), {})) == "");
  CHECK(name(reset_due(rule, {.started = {}, .last_interaction = 0}, utc(3, 1, 5), {})) == "");
}

TEST_CASE("of an idle time and a daily hour the one that comes first names the reason") {
  const ResetRule rule{.mode = ResetRule::Mode::daily, .idle_minutes = 120, .at_hour = 4};
  const auto due = [&rule](std::int64_t started, std::int64_t last, std::int64_t now) {
    return name(reset_due(rule, {.started = started, .last_interaction = last}, now, {}));
  };
  CHECK(due(utc(3, 1, 0), utc(3, 1, 1), utc(3, 1, 3) - 1) == "");
  CHECK(due(utc(3, 1, 0), utc(3, 1, 1), utc(3, 1, 3)) == "idle");
  CHECK(due(utc(3, 1, 0), utc(3, 1, 1), utc(3, 1, 5)) == "idle");       // both: 03:00 was before 04:00
  CHECK(due(utc(3, 1, 0), utc(3, 1, 3, 30), utc(3, 1, 5)) == "daily");  // not idle for two hours yet
  CHECK(due(utc(3, 1, 0), utc(3, 1, 3, 30), utc(3, 1, 6)) == "daily");  // both: 04:00 was before 05:30
  CHECK(due(utc(3, 1, 5), utc(3, 1, 5), utc(3, 1, 7)) == "idle");
  CHECK(due(utc(2, 1, 5), utc(3, 1, 5), utc(3, 1, 6)) == "daily");  // a boundary of a month ago
}

TEST_CASE("the next reset") {
  const SessionTimes times{.started = utc(3, 1, 0), .last_interaction = utc(3, 1, 1)};
  const auto next = [&times](const ResetRule& rule, std::int64_t now) { return next_reset(rule, times, now, {}); };
  CHECK_FALSE(next({}, 0).idle_at);
  CHECK_FALSE(next({}, 0).daily_at);
  const NextReset idle = next({.mode = ResetRule::Mode::idle}, utc(3, 2, 0));
  CHECK(idle.idle_at == utc(3, 1, 2));
  CHECK_FALSE(idle.daily_at);
  const ResetRule daily{.mode = ResetRule::Mode::daily, .at_hour = 4};
  CHECK(next(daily, utc(3, 1, 4) - 1).daily_at == utc(3, 1, 4));
  CHECK(next(daily, utc(3, 1, 4)).daily_at == utc(3, 2, 4));
  CHECK_FALSE(next(daily, utc(3, 1, 4)).idle_at);
  constexpr auto highest = std::numeric_limits<std::int64_t>::max();
  CHECK(next({.mode = ResetRule::Mode::idle, .idle_minutes = highest}, highest).idle_at.has_value());
}

TEST_CASE("the rule of a session") {
  ResetRules rules;
  rules.base.at_hour = 1;
  CHECK(rules.choose("slack", "group", true).from == "base");
  rules.group = ResetRule{.at_hour = 2};
  rules.thread = ResetRule{.at_hour = 3};
  rules.by_channel.emplace("slack", ResetRule{.at_hour = 5});
  CHECK(rules.choose("discord", "group", false).rule.at_hour == 2);
  CHECK(rules.choose("discord", "group", true).rule.at_hour == 3);
  CHECK(rules.choose("discord", "direct", false).rule.at_hour == 1);
  CHECK(rules.choose("slack", "group", true).rule.at_hour == 5);
  CHECK(rules.choose("slack", "group", true).from == "channel");
}

TEST_CASE("a mention before a trigger") {
  CHECK(without_mention("<@U1> /new") == "/new");
  CHECK(without_mention(" <@U1|bot>/new x ") == "/new x");
  CHECK(without_mention("@bot  /new") == "/new");
  CHECK(without_mention("<@U1 /new") == "<@U1 /new");
  CHECK(without_mention("@bot") == "@bot");
  CHECK(without_mention("/new @bot") == "/new @bot");
  CHECK(without_mention("") == "");
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
                            "guardrails",
                            "permissionMode",
                            "turnCap",
                            "tools",
                            "agentRef",
                            "agentSnapshot",
                            "fallbackChain",
                            "model",
                            "modelProvider",
                            "contextTokens",
                            "x-custom",
                            "",
                            "日本"}) {
    CAPTURE(field);
    CHECK(kept_on_reset(field));
  }
  for (const char* field : {"sdkSessionId",
                            "cliSessionIds",
                            "claudeCliSessionId",
                            "inputTokens",
                            "outputTokens",
                            "totalTokens",
                            "systemPromptReport",
                            "compactionCount",
                            "messageCount",
                            "entryCount",
                            "authProfileOverrideCompactionCount",
                            "systemSent",
                            "abortedLastRun",
                            "lastHeartbeatText",
                            "lastHeartbeatSentAt",
                            "memoryFlushAt",
                            "memoryFlushCompactionCount",
                            "sessionFile",
                            "archivedAt",
                            "status",
                            "activeRun",
                            "runCount",
                            "turnCount",
                            "allowedTools",
                            "usageTotals",
                            "totalTokensFresh"}) {
    CAPTURE(field);
    CHECK_FALSE(kept_on_reset(field));
  }
}

TEST_CASE("no reset lifts what limits an agent") {
  constexpr std::string_view kept =
      R"({"guardrails":{"approval":["x"]},"permissionMode":"plan","turnCap":3,"tools":["ls"],"agentRef":"a",)"
      R"("agentSnapshot":{},"fallbackChain":[])";
  const std::string entry =
      std::string(kept) + R"(,"status":"done","activeRun":{},"turnCount":9,"allowedTools":["b"]})";
  for (const bool keep_metadata : {true, false})
    CHECK(json::apply(entry, reset_edit(entry, keep_metadata)) == std::string(kept) + "}");
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
