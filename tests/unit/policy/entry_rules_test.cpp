#include "policy/entry_rules.hpp"

#include <doctest/doctest.h>

using namespace sessiond;
using namespace sessiond::policy;

namespace {

json::Edit edit_of(std::string_view patch) {
  json::Edit edit;
  for (const json::Member& member : json::members(patch)) {
    edit.put(json::unescape(member.name), std::string(member.value));
  }
  return edit;
}

std::string faults(const Result<void>& result) {
  if (result) return "";
  std::string out;
  for (const Fault& fault : result.error().errors) out += (out.empty() ? "" : " ") + fault.pointer;
  return out;
}

std::string checked(std::string_view patch, Import import = Import::no) {
  return faults(check_entry_edit(edit_of(patch), import, ""));
}

}  // namespace

TEST_CASE("known enums") {
  struct Case {
    std::string field;
    std::vector<std::string> values;
  };
  const std::vector<Case> cases{
      {"sendPolicy", {"allow", "deny"}},
      {"groupActivation", {"mention", "always"}},
      {"chatType", {"direct", "group", "channel", "dm"}},
      {"responseUsage", {"on", "off", "tokens", "full"}},
      {"queueDrop", {"old", "new", "summarize"}},
      {"queueMode", {"steer", "followup", "collect", "steer-backlog", "steer+backlog", "queue", "interrupt"}}};
  for (const Case& one : cases) {
    for (const std::string& value : one.values) CHECK(checked("{\"" + one.field + "\":\"" + value + "\"}") == "");
    for (const std::string bad : {"\"nope\"", "\"\"", "null", "5", "[\"allow\"]", "\"\\ud83d\""}) {
      CAPTURE(bad);
      CHECK(checked("{\"" + one.field + "\":" + bad + "}") == "/" + one.field);
    }
  }
}

TEST_CASE("types of known fields; unknown ones pass whatever they are") {
  CHECK(
      checked(
          R"({"label":"ok","queueCap":5,"systemSent":false,"origin":{"x":"\ud83d"},"model":"m","memoryFlushAt":15})") ==
      "");
  CHECK(checked(R"({"x":1e400,"y":null,"z":"\ud83d","日本":[{}],"":0,"preview":"\ud83d"})") == "");
  CHECK(
      checked(
          R"({"label":5,"queueCap":"5","systemSent":1,"origin":[],"model":{},"cliSessionIds":"x","archivedAt":-1})") ==
      "/label /queueCap /systemSent /origin /model /cliSessionIds /archivedAt");
  CHECK(checked(R"({"label":")" + std::string(200, 'x') + "\"}") == "");
  CHECK(checked(R"({"label":")" + std::string(201, 'x') + "\"}") == "/label");
  CHECK(checked(R"({"name":")" + std::string(513, 'x') + "\"}") == "/name");
  CHECK(checked(R"({"label":"\ud83d"})") == "");
}

TEST_CASE("the members of origin and cliSessionIds have types, too") {
  CHECK(checked(R"({"origin":{"label":"l","provider":"p","surface":"s","chatType":"dm","from":"f","to":"t",)"
                R"("accountId":"a","threadId":"x","more":[1]},"cliSessionIds":{"a":"b","c":null}})") == "");
  CHECK(checked(R"({"origin":{"threadId":17.5,"from":null}})") == "");
  CHECK(checked(R"({"origin":{"label":1,"provider":[],"surface":{},"chatType":"x","from":true,"to":2,"accountId":3,)"
                R"("threadId":false}})") ==
        "/origin/label /origin/provider /origin/surface /origin/chatType /origin/from /origin/to /origin/accountId "
        "/origin/threadId");
  CHECK(checked(R"({"cliSessionIds":{"a":1,"b":{}}})") == "/cliSessionIds/a /cliSessionIds/b");
}

TEST_CASE("read-only fields") {
  constexpr std::string_view all =
      R"({"rev":1,"sessionId":"s","createdAt":1,"updatedAt":1,"messageCount":1,"inputTokens":1,"outputTokens":1,"totalTokens":1,)"
      R"("compactionCount":1,"key":"k","agent":"a"})";
  CHECK(checked(all) ==
        "/rev /sessionId /createdAt /updatedAt /messageCount /inputTokens /outputTokens /totalTokens /compactionCount "
        "/key /agent");
  CHECK(checked(all, Import::yes) == "/rev /key /agent");
  CHECK(checked(R"({"sessionId":"../x","updatedAt":-1,"inputTokens":"5","messageCount":1.5})", Import::yes) ==
        "/sessionId /updatedAt /inputTokens /messageCount");
  CHECK(checked(R"({"sessionId":null})", Import::yes) == "/sessionId");
  CHECK(checked(R"({"sdkSessionId":null,"label":null})", Import::yes) == "");
  CHECK(checked(R"({"sdkSessionId":null})") == "/sdkSessionId");
  json::Edit removal;
  removal.unset = {"sessionId", "rev", "label"};
  CHECK(faults(check_entry_edit(removal, Import::no, "/entry")) == "/entry/sessionId /entry/rev");
  CHECK(faults(check_entry_edit(edit_of(R"({"label":1})"), Import::no, "/entry")) == "/entry/label");
  CHECK(read_only("rev"));
  CHECK_FALSE(read_only("label"));
}

TEST_CASE("what the daemon keeps of runs is refused, also in an import") {
  constexpr std::string_view all = R"({"status":"done","activeRun":{},"runCount":1,"turnCount":1,"allowedTools":[]})";
  for (const Import import : {Import::no, Import::yes})
    CHECK(checked(all, import) == "/status /activeRun /runCount /turnCount /allowedTools");
  json::Edit edit = edit_of(R"({"status":"done","runCount":1.0,"turnCount":null,"allowedTools":["b"],"label":"x"})");
  drop_unchanged_run_fields(edit, R"({"status":"d\u006fne","runCount":1,"allowedTools":["a"]})");
  CHECK(edit == edit_of(R"({"allowedTools":["b"],"label":"x"})"));
}

TEST_CASE("fields that runs follow have types") {
  CHECK(checked(R"({"permissionMode":"acceptEdits","agentRef":"a","agentSnapshot":{},"fallbackChain":[{}],"tools":[],)"
                R"("guardrails":{},"startedAt":1,"endedAt":2,"runtimeMs":1})") == "");
  CHECK(checked(R"({"agentRef":1,"agentSnapshot":[],"fallbackChain":"m","tools":{},"guardrails":[],"startedAt":"x",)"
                R"("endedAt":-1,"runtimeMs":-1})") ==
        "/agentRef /agentSnapshot /fallbackChain /tools /guardrails /startedAt /endedAt /runtimeMs");
  for (const std::string mode : {"a", "Z9_-", "plan"}) CHECK(checked(R"({"permissionMode":")" + mode + "\"}") == "");
  CHECK(checked(R"({"permissionMode":")" + std::string(64, 'x') + "\"}") == "");
  for (const std::string mode : {"", "9a", "-a", "a b", "a.b", "é"})
    CHECK(checked(R"({"permissionMode":")" + mode + "\"}") == "/permissionMode");
  CHECK(checked(R"({"permissionMode":")" + std::string(65, 'x') + "\"}") == "/permissionMode");
  CHECK(checked(R"({"permissionMode":5})") == "/permissionMode");
}

TEST_CASE("dm is stored as direct, nothing else is touched") {
  json::Edit edit = edit_of(R"({"chatType":"dm","x":"dm"})");
  normalize_entry_edit(edit);
  CHECK(edit == edit_of(R"({"chatType":"direct","x":"dm"})"));
}

TEST_CASE("a whole Session sent back") {
  json::Edit edit = edit_of(R"({"key":"agent:main:slack:dm:u","agent":"main","rev":7,"label":"x"})");
  CHECK(take_identity(edit, "agent:main:slack:direct:u", "main", ""));
  CHECK(edit == edit_of(R"({"label":"x"})"));
  json::Edit other_key = edit_of(R"({"key":"agent:main:x"})");
  CHECK(faults(take_identity(other_key, "agent:main:y", "main", "/e")) == "/e/key");
  json::Edit number = edit_of(R"({"key":5})");
  CHECK(faults(take_identity(number, "agent:main:y", "main", "")) == "/key");
  json::Edit other_agent = edit_of(R"({"agent":"codex"})");
  const auto mismatch = take_identity(other_agent, "agent:main:y", "main", "");
  REQUIRE_FALSE(mismatch);
  CHECK(mismatch.error().code == Code::agent_mismatch);
}
