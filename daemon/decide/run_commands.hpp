// The commands about runs (policy/runs/README.md), as commands.hpp has those about sessions. Each `decide` is pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/decide/commands.hpp"
#include "daemon/decide/hooks.hpp"
#include "daemon/decide/run.hpp"
#include "policy/runs/model_choice.hpp"
#include "policy/runs/settings.hpp"
#include "store/delivery/delivery.hpp"

namespace sessiond::decide {

// The terms of a run, as the request that starts or claims it says them.
struct RunTerms {
  std::string runner{};  // empty: the token's id
  std::optional<std::int64_t> lease_ms{}, idle_timeout_ms{}, max_steps{};
  std::string model{}, provider{};
  std::string instructions{};
};

struct StartRun {
  Target target{};
  std::optional<std::string> topic{};
  std::string run_id{};  // empty: made
  std::vector<transcripts::NewEntry> input{};
  RunTerms terms{};
  std::optional<delivery::Delivery> reply_to{};  // where its answer is sent: channel and to at least
  std::string when_busy{};                       // reject, queue, steer, interrupt; empty: as the session says
  bool queue_only = false;
  std::string instance{}, request_id{};  // members of the problem that answers a refusal which is told by an event
  Asking hooks{};                        // UserPromptSubmit
  std::string asked_about{};             // the run about which the session's hooks are asked meanwhile; empty: none
};

// Hands out the first queued run of a session. Answers 204 when that is another one by now, or it may not start.
struct ClaimRun {
  Target target{};
  std::string run_id{};
  RunTerms terms{};
  Asking hooks{};  // UserPromptSubmit
};

struct RunEvent {
  std::string type{};
  std::string body{};  // raw JSON object, as the client sent it
};
struct RunEvents {
  Target target{};
  RunHold hold{};
  std::optional<std::uint64_t> n{};
  std::vector<RunEvent> events{};
  std::vector<std::string> steered{};  // entry ids that the runner has taken
  RunPulse pulse{};
  bool store_text = false;  // now, and not with a later call
  std::string instance{}, request_id{};
};

struct FinishRun {
  Target target{};
  RunHold hold{};
  RunStatus status = RunStatus::done;
  std::string stop_reason{};
  std::string error{};  // raw JSON object
  std::vector<transcripts::NewEntry> entries{};
  std::string usage{};  // raw JSON object
  std::vector<std::string> steered{};
  std::optional<bool> deliver{};  // nothing: if the run has a replyTo
};

struct AbortRun {
  Target target{};
  std::string run_id{};  // empty: the active one
  std::string reason{};
};

// The daemon ends a run: one whose lease or time is over. Answers 204 when the run has ended meanwhile.
struct EndRun {
  Target target{};
  RunHold hold{};  // fence 0: a queued run
  enum class Why : std::uint8_t { lease_lost, idle_timeout, abort_grace, too_old } why = Why::lease_lost;
};

Result<Decision> decide(const AgentState& state, const StartRun& command, const Context& context,
                        const FetchedLines& lines);
Result<Decision> decide(const AgentState& state, const ClaimRun& command, const Context& context,
                        const FetchedLines& lines);
Result<Decision> decide(const AgentState& state, const RunEvents& command, const Context& context,
                        const FetchedLines& lines);
Result<Decision> decide(const AgentState& state, const FinishRun& command, const Context& context,
                        const FetchedLines& lines);
Result<Decision> decide(const AgentState& state, const AbortRun& command, const Context& context,
                        const FetchedLines& lines);
Result<Decision> decide(const AgentState& state, const EndRun& command, const Context& context,
                        const FetchedLines& lines);

// Chooses the model that the session's next run would have; `request` are the names in its request.
runs::ModelChoice model_of_next_run(const Session& session, const std::string& agent, const runs::Settings& settings,
                                    runs::ModelNames request);

// The problem of a write that names a lease which this token does not have, of the session `key`.
std::unexpected<Problem> lease_lost(std::string_view key, const RunHold& hold);

// lease_lost unless this token (`actor`) holds this lease of the session.
Result<const Run*> held_run(const AgentState& state, const Session& session, const RunHold& hold,
                            std::string_view actor);

// Returns whether this token holds this lease of some session of the agent.
bool holds_run(const AgentState& state, const RunHold& hold, std::string_view actor);

// Returns whether this token has ended the run by this lease, and the run is kept: its finish is answered as before.
bool has_finished(const AgentState& state, const Session& session, const RunHold& hold, std::string_view actor);

// session_busy if the session has an active run: with runs.exclusive only its runner writes what is the agent's.
Result<void> check_no_active_run(const AgentState& state, const Session& session);

}  // namespace sessiond::decide
