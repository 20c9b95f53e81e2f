// The commands about approvals (policy/runs/README.md), as run_commands.hpp has those about runs. Each `decide` is
// pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "daemon/decide/run_commands.hpp"

namespace sessiond::decide {

// A runner asks whether it may use a tool. Answers 200 with the approval if it is decided at once, else 201.
struct AskApproval {
  Target target{};
  RunHold hold{};
  std::string tool{};
  std::string args = "{}";  // raw JSON object
  std::string call_id{};    // empty: none
  std::optional<std::int64_t> timeout_ms{};
  std::int64_t age_now = 0;  // by the clock of ages
  bool can_be_seen = true;   // somebody who may answer holds a stream that shows the question
  Asking hooks{};            // PreToolUse
};

// Answers with the approval. The first answer counts.
struct AnswerApproval {
  Target target{};
  std::string id{};
  bool allow = false;
  bool for_session = false;  // the tool is allowed from now on
  std::string reason{};
};

// The deadline of an approval has passed. Answers 204, also when it was decided meanwhile.
struct ExpireApproval {
  Target target{};
  std::string id{};
};

// Takes a tool out of the session's allowedTools, or all. Answers 204, also when it was not among them.
struct ForgetAllowedTools {
  Target target{};
  std::optional<std::string> tool{};
};

Result<Decision> decide(const AgentState& state, const AskApproval& command, const Context& context);
Result<Decision> decide(const AgentState& state, const AnswerApproval& command, const Context& context);
Result<Decision> decide(const AgentState& state, const ExpireApproval& command, const Context& context);
Result<Decision> decide(const AgentState& state, const ForgetAllowedTools& command, const Context& context);

}  // namespace sessiond::decide
