// The only code that changes an agent's sessions: live commits, start-up and rebuilding after a failed batch all come
// through here.
#pragma once

#include "daemon/decide/agent_state.hpp"
#include "daemon/decide/decision.hpp"
#include "store/journal/event.hpp"

namespace sessiond {

inline constexpr std::size_t replay_page_bytes = 4U << 20;  // of the journal, read at once

enum class Replay : std::uint8_t {
  no,   // live: the event follows from this very state
  yes,  // recovery: the store may already hold it; entries are changed only where the event is newer (FORMATS §2
        // "Recovery")
};

void apply(AgentState& state, const Event& event, Replay replay = Replay::no);
void apply(AgentState& state, TranscriptUpdate update);

}  // namespace sessiond
