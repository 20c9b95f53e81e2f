// The two counts of a session. messageCount is the number of its messages (context::is_message). entryCount is the
// number of all its entries. Both include the transcripts of topics, and leave out streams. If a session's entry has
// messageCount without entryCount, an older daemon has written it, which counted each entry as a message.
#pragma once

#include <cstdint>
#include <string_view>

#include "store/problem.hpp"
#include "transcripts/memory_transcript.hpp"
#include "transcripts/transcript.hpp"

namespace sessiond::transcripts {

struct Counts {
  std::int64_t messages = 0, entries = 0;

  void add(const Counts& other) {
    messages += other.messages;
    entries += other.entries;
  }
};

// Returns whether a stored line is a message.
bool is_message(std::string_view line);

// Counts a whole transcript. Blocks, like Transcript.
Result<Counts> counts_of(Transcript& transcript);
Result<Counts> counts_of(const MemoryTranscript& transcript);

}  // namespace sessiond::transcripts
