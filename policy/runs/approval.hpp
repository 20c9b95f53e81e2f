// Decides what an agent's wish to use a tool is answered: allow, deny, or ask a person.
//
// A runner asks before it uses a tool that it is not sure of. A blocking PreToolUse hook answers first, and that is not
// decided here. Then, in this order:
//   1. run_command, where guardrails.allowedCommands is given: a command that it does not allow is denied.
//   2. A tool in guardrails.approval is asked; absent: git_commit.
//   3. A tool in the entry's allowedTools is allowed.
//   4. A run_command that guardrails.allowedCommands allows is allowed.
//   5. Anything else is asked.
// Guardrails that a foreign program wrote, and that cannot be read, allow nothing: an allowedCommands that is no array
// denies, an approval that is no array asks. A member null counts as absent.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sessiond::runs {

// A question, and the entry's fields that answer it: JSON, or empty when the entry has no such field.
struct ToolQuestion {
  std::string_view tool{};
  std::string_view args{};  // JSON; empty: none
  std::string_view guardrails{};
  std::string_view allowed_tools{};
};

enum class Answer : std::uint8_t { ask, allow, deny };
enum class AnswerSource : std::uint8_t { none, session, guardrail };
struct Ruling {
  Answer answer = Answer::ask;
  AnswerSource source = AnswerSource::none;  // none: it is asked
  friend bool operator==(const Ruling&, const Ruling&) = default;
};
std::string_view name(AnswerSource source);  // as an Approval's `source` has it; "" for none

Ruling rule_on(const ToolQuestion& question);

// Says whether a person is always asked for a tool. The answer allow-session then counts as allow, and the tool does
// not go into allowedTools.
bool is_always_asked(std::string_view tool, std::string_view guardrails);

// Returns allowedTools with one more tool, as JSON; as it was when it has the tool. `allowed_tools` is empty when the
// entry has none.
std::string with_allowed_tool(std::string_view allowed_tools, std::string_view tool);

}  // namespace sessiond::runs
