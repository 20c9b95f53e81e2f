#include "transcripts/counts.hpp"

#include "store/try.hpp"
#include "transcripts/conversation.hpp"
#include "transcripts/entry.hpp"
#include "transcripts/landmarks.hpp"

namespace sessiond::transcripts {

bool is_message(std::string_view line) {
  const EntryFields fields = read_fields(line);
  std::string held;
  const auto [type, body] = spoken_of(fields, line, held);
  return context::is_message(type, context::read_entry(type, body));
}

Result<Counts> counts_of(Transcript& transcript) {
  TRY(const Landmarks* marks, transcript.landmarks());
  return Counts{.messages = static_cast<std::int64_t>(marks->counts.all()),
                .entries = static_cast<std::int64_t>(marks->entries())};
}

Result<Counts> counts_of(const MemoryTranscript& transcript) {
  Counts counts;
  if (transcript.count() == 0) return counts;
  const SeqSpan all{0, transcript.count() - 1};
  TRY(transcript.each(std::span(&all, 1), [&counts](std::uint64_t, std::string_view line) {
    counts.add({.messages = is_message(line) ? 1 : 0, .entries = 1});
    return true;
  }));
  return counts;
}

}  // namespace sessiond::transcripts
