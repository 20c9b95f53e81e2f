#include "policy/runs/approval.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "policy/runs/shell_words.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::runs {
namespace {

constexpr std::string_view command_tool = "run_command";
constexpr std::string_view asked_by_default = "git_commit";

// Returns a member of `object`. Nothing when it is absent or null, or `object` is empty or no object.
std::optional<std::string_view> member(std::string_view object, std::string_view name) {
  if (object.empty()) return {};
  auto value = json::find(object, name);
  if (value && json::kind(*value) == json::Kind::null) return {};
  return value;
}

bool names(std::string_view array, std::string_view tool) {
  if (array.empty()) return false;
  return std::ranges::any_of(json::elements(array),
                             [&](std::string_view element) { return json::as_string(element) == tool; });
}

}  // namespace

std::string_view name(AnswerSource source) {
  constexpr std::array<std::string_view, 3> sources{"", "session", "guardrail"};  // in the order of the enum
  return sources.at(static_cast<std::size_t>(source));
}

bool is_always_asked(std::string_view tool, std::string_view guardrails) {
  const auto approval = member(guardrails, "approval");
  if (!approval) return tool == asked_by_default;
  return json::kind(*approval) != json::Kind::array || names(*approval, tool);
}

Ruling rule_on(const ToolQuestion& question) {
  const auto allowed_commands =
      question.tool == command_tool ? member(question.guardrails, "allowedCommands") : std::nullopt;
  if (allowed_commands) {
    const auto command = member(question.args, "command");
    const auto text = command ? json::as_string(*command) : std::nullopt;
    if (!text || !is_allowed_command(*text, *allowed_commands)) return {Answer::deny, AnswerSource::guardrail};
  }
  if (is_always_asked(question.tool, question.guardrails)) return {};
  if (names(question.allowed_tools, question.tool)) return {Answer::allow, AnswerSource::session};
  if (allowed_commands) return {Answer::allow, AnswerSource::guardrail};
  return {};
}

std::string with_allowed_tool(std::string_view allowed_tools, std::string_view tool) {
  std::vector<std::string> tools;
  if (!allowed_tools.empty()) {
    for (const std::string_view element : json::elements(allowed_tools))
      if (auto text = json::as_string(element)) tools.push_back(std::move(*text));
  }
  if (std::ranges::find(tools, tool) == tools.end()) tools.emplace_back(tool);
  return json::array_of(tools);
}

}  // namespace sessiond::runs
