// Steps that the decisions about runs share. As in steps.hpp, a step that needs a fact sets builder.out.need.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/decide/run_commands.hpp"
#include "daemon/decide/steps.hpp"

namespace sessiond::decide {

inline constexpr std::string_view held_by_takeover = R"("takeover")";  // the member `held` of replies and events

// Emits an event of a run, and edits the session's entry by `edit`. `session` is edited; its rev stays.
void emit_run(DecisionBuilder& builder, Session& session, journal::EventType type, RunTold told, json::Edit edit = {});

// How an active run ends.
struct RunEnd {
  RunStatus status = RunStatus::interrupted;
  std::string stop_reason{};
  std::string error{};                           // raw JSON object; empty: none
  std::vector<transcripts::NewEntry> entries{};  // that its runner ends with
  std::optional<std::string> partial{};          // text of its last answer that no entry has: it becomes one. Nothing:
                                                 // said_by(), unless its runner ends it with an answer
  std::string usage{};                           // raw JSON object of the whole run; empty: none
  std::vector<std::string> steered{};            // entry ids that its runner has taken
  bool by_runner = false;
  bool retried = false;  // another run follows with its inputs: a model is not shown the partial text
  bool deliver = false;  // each of `entries` that has text
};
// Ends the active run: appends its entries, its partial text and the entry sessiond.run, and emits run.finished. What
// its runner has not confirmed becomes a queued run. `run` is then as it ended.
Result<AppendResult> end_active(DecisionBuilder& builder, Session& session, Run& run, RunEnd end,
                                const FetchedLines& lines);
// Appends entries, or nothing if the transcript does not take them: that keeps nothing from ending. May set
// builder.out.need.
AppendResult append_if_possible(DecisionBuilder& builder, Session& session, const AppendRequest& append,
                                const FetchedLines& lines);
// Marks what a superseded run says in the end: nobody was told it, and no model is shown it.
void mark_superseded(transcripts::NewEntry& entry);
// Makes the run that waits with the same inputs as one that ended, but for those that people deleted. Nothing: they
// deleted them all.
std::optional<Run> again_of(const DecisionBuilder& builder, const Run& run);
// The same of a run that a person has superseded. Nothing also if the run is settled. `with_steered`: with the messages
// that it was handed meanwhile and did not take, but for those that wait in a run of their own.
std::optional<Run> waits_again(const DecisionBuilder& builder, const SessionRuns& runs, const Run& run,
                               bool with_steered = false);
// Makes the run that waits with messages which an active one was handed and did not take.
Run leftover_of(const DecisionBuilder& builder, const Run& active, const std::vector<Steered>& steered);
// Ends runs that have not begun: appends an entry sessiond.run for each, and emits run.finished. The first one tells of
// `overflow`. May set builder.out.need.
void end_queued(DecisionBuilder& builder, Session& session, std::vector<Run> runs, RunStatus status,
                const std::string& error, std::vector<DroppedInput> overflow = {});
// Appends the entry sessiond.run of inputs that a run has lost while it waits. May set builder.out.need.
void record_lost(DecisionBuilder& builder, Session& session, const Run& run, std::span<const std::string> input,
                 const std::string& error);
// For run.queued: the waiting run as it is.
RunInputs no_change_of(const Run& run);
// Takes messages out of the runs that wait. A run without any other input is dropped, with `error`. May set
// builder.out.need.
void take_off_queue(DecisionBuilder& builder, Session& session, const std::vector<std::string>& ids,
                    const std::string& error);
// The same with messages that the active run's runner has confirmed (queueMode steer-backlog).
void take_steered_off_queue(DecisionBuilder& builder, Session& session, const std::vector<std::string>& steered);
// Ends the runs of a session whose transcripts go: reset, archive, delete. With `topic`, those of one topic. The active
// run's last words are in its transcript.
Result<void> end_all(DecisionBuilder& builder, Session& session, std::string_view why,
                     const std::optional<std::string>& topic = {});

// Ends them by events alone: another program has taken the transcript, or it cannot be read now.
void drop_runs(DecisionBuilder& builder, Session& session, std::string_view why);

// Emits approval.resolved with what `edit` sets in the session's entry.
void emit_resolved(DecisionBuilder& builder, const Session& session, const Approval& approval,
                   const std::optional<std::string>& topic, json::Edit edit = {});

// Returns the text of a pulse that is not stored yet. Empty, too, while the commit that stores it is on its way.
std::string_view unstored_text(const SessionRuns& runs, const RunPulse& pulse);
// The text that a run has said and that no entry has: what is stored, then what is in memory.
std::string partial_of(const SessionRuns& runs, const RunPulse& pulse, std::uint64_t most_bytes);
// Returns all that the active run of a session has said and that no entry has, as it is kept now.
std::string said_by(const DecisionBuilder& builder, const Session& session);
// Starts a run that is complete but for its times. `overflow_told`: it is told of what a full queue has dropped.
void start_run(DecisionBuilder& builder, Session& session, Run& run, bool overflow_told = false);

// Gives the session the counters of the entries that were appended since the event `from`.
void take_counters(const DecisionBuilder& builder, Session& session, std::size_t from);
// The entry sessiond.input: the run is handed these words (policy/context/run_order.hpp).
transcripts::NewEntry input_note(const DecisionBuilder& builder, const Run& run, const std::vector<std::string>& ids);
// Returns which of these words the active run was handed by steering, and is confirmed to have taken.
std::vector<std::string> taken_of(const SessionRuns& runs, const std::vector<std::string>& confirmed);
// Appends the entry sessiond.input: the run is handed these words. May set builder.out.need; errors of
// append_entries().
Result<void> hand_over(DecisionBuilder& builder, Session& session, const Run& run, const std::vector<std::string>& ids);

// Asks the runner of the active run to stop. `reason` may be empty.
void stop_run(DecisionBuilder& builder, Session& session, Run& run, std::string_view reason);

// Says why a session with this entry may have no further turn; nothing: it may.
std::optional<std::string> turn_limit(const Session& session, const json::Index& entry, const Rules& rules);
// Says why a session of this agent may have no further run: what its answers have cost.
std::optional<std::string> cost_limit(const Session& session, std::string_view agent, const Rules& rules);
// A cap that the session has reached: turn_limit, then cost_limit.
struct CapReached {
  Code code = Code::turn_limit;
  std::string why{};
};
std::optional<CapReached> cap_reached(const Session& session, const json::Index& entry, std::string_view agent,
                                      const Rules& rules);
// Tells by run.finished that a run was refused. The run is not listed.
void tell_refused(DecisionBuilder& builder, Session& session, Run run, Code code, std::string_view why);

// How a request about a run is answered.
struct RunAnswer {
  int status = 200;
  std::optional<std::uint64_t> fence{};   // of the lease that is given out with the run's time
  std::optional<std::size_t> position{};  // of a queued run, from 1
  bool is_held = false;                   // it waits until a person hands back
  std::vector<std::string> steered{};     // ids of the messages that the active run was handed
};
void answer_run(DecisionBuilder& builder, const Session& session, const Run& run, const RunAnswer& answer);
// Answers with a problem although events are committed: a refusal that is told. `members` are raw, e.g. ,"limit":"x".
void answer_refusal(DecisionBuilder& builder, Code code, std::string_view detail, std::string_view instance,
                    std::string_view request_id, std::string_view members = {});

}  // namespace sessiond::decide
