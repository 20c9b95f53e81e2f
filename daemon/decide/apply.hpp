// Applies events to an agent's state. This is the only code that changes sessions: live commits, start-up and
// rebuilding after a failed batch all use it, so they cannot differ.
#pragma once

#include "daemon/decide/agent_state.hpp"
#include "daemon/decide/decision.hpp"
#include "daemon/decide/events.hpp"

namespace sessiond::decide {

inline constexpr std::size_t replay_page_bytes = 4U << 20;  // journal bytes read at once

enum class Replay : std::uint8_t {
  no,   // live: the event was decided on this very state
  yes,  // recovery: the store may already contain the event. An entry is only changed if the event is newer than it, by
        // `rev`, or by updatedAt if a foreign program dropped rev
};

// `edited`: the session as the event leaves it, where the decision has it. It is moved from.
void apply(AgentState& state, const Change& change, Replay replay = Replay::no, Session* edited = nullptr);
void apply(AgentState& state, TranscriptUpdate update);
// Applies only what an event says about archives.
void apply_to_archives(AgentState& state, const journal::Event& event);

}  // namespace sessiond::decide
