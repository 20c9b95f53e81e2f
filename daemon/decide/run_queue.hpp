// Places the input of a run that cannot start now, or is not to: it joins a waiting run, waits in a run of its own, is
// handed to the active run, or stops it. The rules are in policy/runs/queue.hpp.
#pragma once

#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daemon/decide/run_steps.hpp"

namespace sessiond::decide {

// Bytes of messages that were handed to the active run, and that its runner has not confirmed.
inline constexpr std::size_t most_steered_bytes = 256 << 10;

// Messages that this decision has appended.
struct RunInput {
  std::vector<std::string> ids{};
  std::vector<std::string> texts{};  // whole
  std::optional<std::string> topic{};
  std::string reply_to{};  // raw JSON object; empty: none
};

// Asks whether `arriving` inputs may wait in a session, whose runs are `runs` (null: none).
runs::Admission admit(const SessionRuns* runs, const runs::QueueRules& rules, std::size_t arriving);

// Makes the runs that wait with messages which a takeover has held, as if these came now, and all at once. `queued`:
// the session's queue, without runs that have ended; a run of it that they join comes again with its inputs and theirs.
std::vector<Run> runs_of_held(const DecisionBuilder& builder, const Session& session, const std::deque<Run>& queued,
                              const std::vector<HeldMessage>& held);

struct Placed {
  Run run{};                              // the one that waits, or the active one that is steered
  bool steered = false;                   // the active run's runner is told
  std::optional<std::size_t> position{};  // in the queue, from 1
  std::span<const std::string> before{};  // inputs of the waiting run, in the state, that come before those of `run`
};
// Places an input that admit() does not refuse. May set builder.out.need. `runs`: those that the session has still,
// null if none. `run` has what is known of a run of its own: its id and terms.
Placed place_input(DecisionBuilder& builder, Session& session, const SessionRuns* runs, const runs::QueueRules& rules,
                   const RunInput& input, Run run);

}  // namespace sessiond::decide
