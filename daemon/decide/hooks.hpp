// Calls the handlers of an event from decisions (policy/runs/hooks.hpp): hook.called is part of the commit that the
// event is about, so a call is told exactly when its event is durable.
//
// Handlers that are waited for need two commits. The first decision has `ask` and no verdict: it emits the calls, does
// nothing else and has the status `asked`. leases::Hooks waits for the answers, and the same command is decided again
// with the verdict. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/decide/commands.hpp"
#include "daemon/decide/run.hpp"

namespace sessiond::decide {

// The status of a decision that has only called handlers. No answer is kept under it. Its body: {"calls":[id]}.
inline constexpr int asked = 102;

// A part of a command that handlers may block.
struct Asking {
  bool ask = false;                            // false: handlers that block are not called, since no request would wait
  std::optional<runs::HookVerdict> verdict{};  // nothing: they have not been called
};

struct HookEvent {
  std::string_view name{};
  std::string input{};   // raw JSON object
  std::string run_id{};  // empty: it is about no run
  std::optional<std::string> topic{};
};
// Calls the handlers of an event. Returns the ids of those calls that are waited for, in the order of their names.
std::vector<std::string> call_hooks(DecisionBuilder& builder, const Session& session, const HookEvent& event,
                                    bool ask = false);
// Calls the handlers of an event that can be blocked. True: `builder.out` is complete and has the status `asked`.
bool ask_hooks(DecisionBuilder& builder, const Session& session, const HookEvent& event, const Asking& asking);

// A member of an input: a text that is cut where it is long, and then says "truncated":true.
void put_input(json::ObjectWriter& input, std::string_view name, std::string_view text);

// Calls the handlers of SessionStart if the run that is about to start opens the session. Before UserPromptSubmit.
void call_session_start(DecisionBuilder& builder, const Session& session, const Run& run);
// Calls the handlers of Stop or StopFailure, if the run ended done or failed.
void call_stop(DecisionBuilder& builder, const Session& session, const Run& run);

// One call of one handler.
struct HookCall {
  Target target{};
  std::string id{}, name{}, event{};
  std::string run_id{};  // empty: none
};
struct AnswerHook {
  Target target{};
  HookCall call{};
  std::string answer{};  // raw JSON object: block, reason, additionalContext
};
struct ExpireHook {
  Target target{};
  HookCall call{};
};
// A compaction is about to be planned.
struct AskPreCompact {
  Target target{};
  std::optional<std::string> topic{};
  std::string instructions{};
  Asking hooks{};
};

// S/shutdown. The first step stops the active run and drops the queue; the second one, when no run is active any more,
// ends what is open.
struct ShutDown {
  Target target{};
  std::string reason{};
  bool last_step = false;
};

Result<Decision> decide(const AgentState& state, const AnswerHook& command, const Context& context);
Result<Decision> decide(const AgentState& state, const ExpireHook& command, const Context& context);
Result<Decision> decide(const AgentState& state, const AskPreCompact& command, const Context& context);
Result<Decision> decide(const AgentState& state, const ShutDown& command, const Context& context);

}  // namespace sessiond::decide
