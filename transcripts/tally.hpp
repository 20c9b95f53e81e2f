// How many messages a transcript has, and who said them, for a person who goes on with it. Blocks, like Transcript.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "transcripts/landmarks.hpp"
#include "transcripts/memory_transcript.hpp"
#include "transcripts/transcript.hpp"

namespace sessiond::transcripts {

struct Tally : MessageCounts {
  std::optional<std::string> summary{};  // of the last compaction; nothing: there is none
};
Result<Tally> tally(Transcript& transcript);
Result<Tally> tally(const MemoryTranscript& transcript);

}  // namespace sessiond::transcripts
