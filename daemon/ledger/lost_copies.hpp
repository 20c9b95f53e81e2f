// Forks whose transcripts were lost with the agent's folder. What a fork copies comes into no event, only what it was
// copied from: a repair copies it from there again, when that has been made of the journal.
#pragma once

#include <span>
#include <string>

#include "daemon/ledger/paths.hpp"
#include "store/journal/event.hpp"
#include "store/journal/line_position.hpp"
#include "transcripts/transcript_writer.hpp"

namespace sessiond::ledger {

// Stages again what the event had staged at `position`; `positions` are those of its batch. The lines of earlier events
// must be in `writer`. Returns the name of the staged file; "" if it cannot be copied as it was. Blocks.
std::string stage_lost_copy(const Paths& paths, transcripts::TranscriptWriter& writer, const journal::Event& event,
                            const journal::LinePosition& position, std::span<const journal::LinePosition> positions);

}  // namespace sessiond::ledger
