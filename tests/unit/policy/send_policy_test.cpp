#include "policy/send_policy.hpp"

#include <doctest/doctest.h>

using namespace sessiond;
using namespace sessiond::policy;

namespace {

SendPolicy policy_of(std::string_view json) {
  const auto parsed = parse_send_policy(json, "");
  REQUIRE(parsed);
  return *parsed;
}

std::string faults(std::string_view json, std::string_view prefix = "") {
  const auto parsed = parse_send_policy(json, prefix);
  if (parsed) return "none";
  CHECK(parsed.error().code == Code::validation_failed);
  std::string out;
  for (const Fault& fault : parsed.error().errors) out += (out.empty() ? "" : " ") + fault.pointer;
  return out;
}

std::string decide(std::string_view policy_json, std::string_view key, std::string_view entry,
                   const SendCall& call = {}) {
  return to_json(evaluate(policy_of(policy_json), send_question(key, json::Index(entry), call)));
}

constexpr std::string_view allowed_by_0 = R"({"action":"allow","source":"rule","rule":0})";
constexpr std::string_view denied_by_0 = R"({"action":"deny","source":"rule","rule":0})";
constexpr std::string_view undecided = R"({"action":"allow","source":"none","rule":null})";

}  // namespace

TEST_CASE("a policy is read and written") {
  CHECK(to_json(policy_of("{}")) == R"({"evaluation":"first-match","rules":[]})");
  const SendPolicy full = policy_of(
      R"( {"default":"deny","evaluation":"deny-overrides","rules":[{"action":"deny"},{"match":{},"action":"allow"},
          {"match":{"channel":" Slack ","chatType":"DM","keyPrefix":"agent:\u006dain","rawKeyPrefix":"a","to":"\"x","accountId":"ä"},"action":"deny"}]} )");
  CHECK(full.default_action == SendAction::deny);
  CHECK(full.evaluation == SendEvaluation::deny_overrides);
  REQUIRE(full.rules.size() == 3);
  CHECK(full.rules[0].match == SendMatch{});
  CHECK(full.rules[2].match.channel == "Slack");
  CHECK(full.rules[2].match.key_prefix == "agent:main");
  CHECK(policy_of(to_json(full)) == full);
}

TEST_CASE("every fault is named") {
  CHECK(faults("") == "");
  CHECK(faults("nonsense", "/policy") == "/policy");
  CHECK(faults("[]", "/policy") == "/policy");
  CHECK(faults(R"({"default":"maybe","evaluation":"last","rules":{},"x/y~":1})") ==
        "/default /evaluation /rules /x~1y~0");
  CHECK(
      faults(
          R"({"rules":[5,{"match":[],"action":"deny"},{"match":{"channel":1,"chatType":"room","nope":"x","to":"  "}},{"action":"Allow","extra":0}]})",
          "/sendPolicy") ==
      "/sendPolicy/rules/0 /sendPolicy/rules/1/match /sendPolicy/rules/2/match/channel "
      "/sendPolicy/rules/2/match/chatType "
      "/sendPolicy/rules/2/match/nope /sendPolicy/rules/2/match/to /sendPolicy/rules/2/action "
      "/sendPolicy/rules/3/action "
      "/sendPolicy/rules/3/extra");
  CHECK(faults(R"({"default":null})") == "/default");
  CHECK(faults(R"({"default":"allow","default":"deny"})") == "");
}

TEST_CASE("the order of what decides") {
  constexpr std::string_view rules =
      R"({"default":"deny","rules":[{"match":{"channel":"discord","chatType":"group"},"action":"deny"},{"match":{"keyPrefix":"agent:main:slack"},"action":"allow"}]})";
  CHECK(decide(rules, "agent:main:discord:group:1", R"({"sendPolicy":"allow"})") ==
        R"({"action":"allow","source":"session","rule":null})");
  CHECK(decide(rules, "agent:main:slack:channel:c", R"({"sendPolicy":"deny"})") ==
        R"({"action":"deny","source":"session","rule":null})");
  CHECK(decide(rules, "agent:main:slack:channel:c", R"({"sendPolicy":"whatever"})") ==
        R"({"action":"allow","source":"rule","rule":1})");
  CHECK(decide(rules, "agent:main:discord:group:1", "") == denied_by_0);
  CHECK(decide(rules, "agent:main:discord:direct:1", "") == R"({"action":"deny","source":"default","rule":null})");
  CHECK(decide("{}", "agent:main:discord:direct:1", "") == undecided);
}

TEST_CASE("what a rule matches") {
  struct Case {
    std::string_view match, key, entry;
    SendCall call;
    bool matches;
  };
  const std::vector<Case> cases{
      {"{}", "", "", {}, true},
      {R"({"channel":"SLACK"})", "agent:m:slack:channel:c", "", {}, true},
      {R"({"channel":"slack"})", "agent:m:slack:channel:c", R"({"channel":" Discord "})", {}, false},
      {R"({"channel":"discord"})", "agent:m:slack:channel:c", R"({"channel":" Discord "})", {}, true},
      {R"({"channel":"telegram"})",
       "agent:m:slack:channel:c",
       R"({"channel":"discord"})",
       {.channel = "Telegram"},
       true},
      {R"({"channel":"telegram"})", "agent:m:main", R"({"provider":"telegram"})", {}, true},
      {R"({"channel":"telegram"})", "agent:m:main", R"({"lastChannel":"telegram"})", {}, true},
      {R"({"channel":"telegram"})", "agent:m:main", R"({"channel":5})", {}, false},
      {R"({"chatType":"direct"})", "agent:m:slack:dm:u", "", {}, true},
      {R"({"chatType":"DM"})", "agent:m:slack:direct:u", "", {}, true},
      {R"({"chatType":"dm"})", "agent:m:main", R"({"chatType":"dm"})", {}, true},
      {R"({"chatType":"direct"})", "agent:m:slack:group:u", "", {.chat_type = "dm"}, true},
      {R"({"chatType":"group"})", "agent:m:slack:channel:u", R"({"chatType":"group"})", {}, true},
      {R"({"chatType":"channel"})", "agent:m:slack:channel:u", R"({"chatType":"room"})", {}, true},
      {R"({"chatType":"direct"})", "agent:m:slack:work:direct:u", "", {}, true},
      {R"({"chatType":"group"})", "agent:m:main", "", {}, false},
      {R"({"keyPrefix":"Agent:M:Slack"})", "agent:m:slack:channel:c", "", {}, true},
      {R"({"keyPrefix":"slack:"})", "agent:m:slack:channel:c", "", {}, true},
      {R"({"rawKeyPrefix":"slack:"})", "agent:m:slack:channel:c", "", {}, false},
      {R"({"rawKeyPrefix":"AGENT:m:"})", "agent:m:slack:channel:c", "", {}, true},
      {R"({"keyPrefix":"discord:dm:"})", "agent:m:discord:direct:u", "", {}, true},
      {R"({"keyPrefix":"agent:m:discord:direct:"})", "agent:m:discord:dm:u", "", {}, true},
      {R"({"rawKeyPrefix":"agent:m:discord:dm:"})", "agent:m:discord:direct:u", "", {}, true},
      {R"({"keyPrefix":"slack:channel:c:very:long"})", "agent:m:slack:channel:c", "", {}, false},
      {R"({"to":"user:u1"})", "agent:m:main", R"({"lastTo":"User:U1"})", {}, true},
      {R"({"to":"user:u1"})", "agent:m:main", R"({"deliveryContext":{"to":"user:u1"}})", {}, true},
      {R"({"to":"user:u1"})", "agent:m:main", R"({"lastTo":"user:u1"})", {.to = "user:u2"}, false},
      {R"({"to":"user:u1"})", "agent:m:main", R"({"lastTo":"user:u1"})", {.to = " "}, true},
      {R"({"accountId":"Work"})", "agent:m:main", R"({"lastAccountId":"work"})", {}, true},
      {R"({"accountId":"work"})", "agent:m:slack:work:direct:u", "", {}, false},
      {R"({"accountId":"work"})", "agent:m:main", "", {.account_id = "WORK"}, true},
      {R"({"channel":"slack","to":"x"})", "agent:m:slack:channel:c", "", {}, false},
      {R"({"channel":"日本"})", "x", R"({"channel":"日本"})", {}, true}};
  for (const Case& one : cases) {
    CAPTURE(one.match);
    CAPTURE(one.key);
    CAPTURE(one.entry);
    const std::string json = R"({"rules":[{"match":)" + std::string(one.match) + R"(,"action":"deny"}]})";
    CHECK(decide(json, one.key, one.entry, one.call) == (one.matches ? denied_by_0 : undecided));
  }
}

TEST_CASE("deny-overrides: any matching deny wins") {
  constexpr std::string_view rules =
      R"({"default":"deny","evaluation":"deny-overrides","rules":[{"match":{"channel":"slack"},"action":"allow"},{"match":{"channel":"slack"},"action":"allow"},{"match":{"chatType":"group"},"action":"deny"}]})";
  CHECK(decide(rules, "agent:m:slack:group:g", "") == R"({"action":"deny","source":"rule","rule":2})");
  CHECK(decide(rules, "agent:m:slack:channel:g", "") == allowed_by_0);
  CHECK(decide(rules, "agent:m:x:channel:g", "") == R"({"action":"deny","source":"default","rule":null})");
}

TEST_CASE("the trace is given when asked for and stops where the decision fell") {
  const SendPolicy rules = policy_of(
      R"({"rules":[{"match":{"channel":"a\"b"},"action":"allow"},{"match":{"to":"x"},"action":"allow"},{"action":"deny"},{"action":"allow"}]})");
  const SendQuestion question = send_question("agent:m:slack:group:g", json::Index("{}"), {});
  CHECK(evaluate(rules, question).trace.empty());
  const SendDecision decision = evaluate(rules, question, true);
  REQUIRE(decision.trace.size() == 3);
  CHECK(decision.rule == 2U);
  CHECK_FALSE(decision.trace[0].matched);
  CHECK(decision.trace[0].because == R"(channel "slack" does not match "a"b")");
  CHECK(decision.trace[1].because == R"(to is not known, the rule requires "x")");
  CHECK(decision.trace[2].matched);
  CHECK(
      to_json(decision, true)
          .starts_with(
              R"({"action":"deny","source":"rule","rule":2,"trace":[{"rule":0,"matched":false,"because":"channel \"slack\" does not)"));
}
