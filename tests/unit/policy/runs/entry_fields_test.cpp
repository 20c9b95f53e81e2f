#include "policy/runs/entry_fields.hpp"

#include <doctest/doctest.h>

using namespace sessiond;
using namespace sessiond::runs;

namespace {

json::Edit fields_of(std::string_view object) {
  json::Edit edit;
  for (const json::Member& member : json::members(object))
    edit.put(json::unescape(member.name), std::string(member.value));
  return edit;
}

std::string pointers(const std::vector<Fault>& faults) {
  std::string out;
  for (const Fault& fault : faults) out += (out.empty() ? "" : " ") + fault.pointer;
  return out;
}

std::string faults_in(std::string_view object) { return pointers(field_faults(fields_of(object), "/e")); }

// The faults' pointers, the code, or "" for an edit that may be made.
std::string after_edit(std::string_view before, const json::Edit& edit) {
  const auto result = check_binding(before, edit, "");
  if (result) return "";
  return result.error().code == Code::validation_failed ? pointers(result.error().errors)
                                                        : std::string(name(result.error().code));
}
std::string after_edit(std::string_view before, std::string_view edit) { return after_edit(before, fields_of(edit)); }
std::string after_removal(std::string_view before, std::string_view field) {
  return after_edit(before, json::Edit{.set = {}, .unset = {std::string(field)}});
}

}  // namespace

TEST_CASE("what a client writes has its shape") {
  CHECK(faults_in(R"({"turnCap":"unlimited","tools":["a"],"guardrails":{"allowedCommands":["git status"],)"
                  R"("approval":["x"],"more":5},"agentSnapshot":{"tools":["a","b"],"x":1},"other":7})") == "");
  CHECK(faults_in(R"({"turnCap":null,"tools":[],"guardrails":{},"agentSnapshot":{}})") == "");
  CHECK(faults_in(R"({"guardrails":{"allowedCommands":null,"approval":null},"agentSnapshot":{"tools":null}})") == "");
  CHECK(faults_in(R"({"turnCap":-1})") == "/e/turnCap");
  CHECK(faults_in(R"({"turnCap":"50"})") == "/e/turnCap");
  CHECK(faults_in(R"({"guardrails":{"allowedCommands":["a","b;c"],"approval":[1,"x",null]}})") ==
        "/e/guardrails/allowedCommands/1 /e/guardrails/approval/0 /e/guardrails/approval/2");
  CHECK(faults_in(R"({"guardrails":{"allowedCommands":"git","approval":{}}})") ==
        "/e/guardrails/allowedCommands /e/guardrails/approval");
  CHECK(faults_in(R"({"tools":["a",1,{}]})") == "/e/tools/1 /e/tools/2");
  CHECK(faults_in(R"({"agentSnapshot":{"tools":{}}})") == "/e/agentSnapshot/tools");
  CHECK(faults_in(R"({"agentSnapshot":{"tools":[5]}})") == "/e/agentSnapshot/tools/0");
}

TEST_CASE("a session keeps its agent") {
  constexpr std::string_view bound =
      R"({"agentRef":"a","agentSnapshot":{"m":1,"n":[1]},"fallbackChain":["x","y"],"label":"l"})";
  CHECK(after_edit("{}", R"({"agentRef":"a","agentSnapshot":{},"fallbackChain":[]})") == "");
  CHECK(after_edit(R"({"agentRef":null})", R"({"agentRef":"a"})") == "");
  CHECK(after_edit(bound, R"({"agentRef":"a","agentSnapshot":{"n":[1.0],"m":1},"fallbackChain":["x","\u0079"]})") ==
        "");
  CHECK(after_edit(bound, R"({"label":"m"})") == "");
  CHECK(after_removal(bound, "label") == "");
  for (const char* edit : {R"({"agentRef":"b"})", R"({"agentRef":null})", R"({"agentSnapshot":{"m":1}})",
                           R"({"agentSnapshot":{}})", R"({"fallbackChain":["y","x"]})", R"({"fallbackChain":[]})"}) {
    CAPTURE(edit);
    CHECK(after_edit(bound, edit) == "agent_bound");
  }
  for (const char* field : {"agentRef", "agentSnapshot", "fallbackChain"})
    CHECK(after_removal(bound, field) == "agent_bound");
  CHECK(after_removal("{}", "agentRef") == "");
}

TEST_CASE("tools narrow those of the agent") {
  constexpr std::string_view agent = R"({"agentSnapshot":{"tools":["read","ls","bash"]}})";
  CHECK(after_edit(agent, R"({"tools":["ls","read"]})") == "");
  CHECK(after_edit(agent, R"({"tools":[]})") == "");
  CHECK(after_edit(agent, R"({"tools":["ls","rm","read","Bash"]})") == "/tools/1 /tools/3");
  CHECK(after_edit("{}", R"({"tools":["anything"]})") == "");
  CHECK(after_edit("{}", R"({"tools":["ls","rm"],"agentSnapshot":{"tools":["ls"]}})") == "/tools/1");
  CHECK(after_edit(R"({"tools":["rm"]})", R"({"agentSnapshot":{"tools":["ls"]}})") == "/tools/0");
  CHECK(after_edit(R"({"agentSnapshot":{}})", R"({"tools":["ls"]})") == "/tools/0");
  CHECK(after_edit(R"({"agentSnapshot":{"tools":["ls"]},"tools":["rm"]})", R"({"label":"x"})") ==
        "");  // a foreign program's
  CHECK(after_removal(R"({"agentSnapshot":{"tools":["ls"]},"tools":["ls"]})", "tools") == "");
}

TEST_CASE("tools only narrow while a run is active") {
  for (const char* status : {"running", "aborting"}) {
    const std::string active = R"({"agentSnapshot":{"tools":["read","ls","bash"]},"tools":["read","ls"],"status":")" +
                               std::string(status) + "\"}";
    CHECK(after_edit(active, R"({"tools":["ls"]})") == "");
    CHECK(after_edit(active, R"({"tools":["ls","bash"]})") == "/tools/1");
    CHECK(after_edit(active, R"({"tools":["rm"]})") == "/tools/0");
    CHECK(after_edit(active, R"({"tools":null})") == "/tools");
    CHECK(after_removal(active, "tools") == "/tools");
  }
  constexpr std::string_view done = R"({"tools":["ls"],"status":"done"})";
  CHECK(after_edit(done, R"({"tools":["ls","bash"]})") == "");
  CHECK(after_removal(done, "tools") == "");
  CHECK(after_edit(R"({"status":"running"})", R"({"tools":["ls"]})") == "");  // all of the agent's before
}
