#include "policy/fork.hpp"

#include <algorithm>
#include <array>

namespace sessiond::policy {
namespace {

constexpr auto copied = std::to_array<std::string_view>(
    {// the model
     "providerOverride", "modelOverride", "authProfileOverride", "authProfileOverrideSource", "modelProvider", "model",
     // levels
     "thinkingLevel", "verboseLevel", "reasoningLevel", "elevatedLevel", "responseUsage",
     // how the agent runs
     "execHost", "execSecurity", "execAsk", "execNode", "cwd", "context", "compactInstructions",
     // what it may do, and how many of its turns are used up
     "agentRef", "agentSnapshot", "fallbackChain", "tools", "guardrails", "permissionMode", "sendPolicy", "turnCap",
     "turnCount"});

}  // namespace

json::Edit fork_edit(std::string_view entry) {
  json::Edit edit;
  for (const json::Member& member : json::members(entry)) {
    std::string name = json::unescape(member.name);
    if (std::ranges::find(copied, name) != copied.end()) edit.put(std::move(name), std::string(member.value));
  }
  return edit;
}

}  // namespace sessiond::policy
