#include "transcripts/tally.hpp"

#include <ranges>

#include "store/json/raw_json.hpp"
#include "store/try.hpp"
#include "transcripts/entry.hpp"

namespace sessiond::transcripts {
namespace {

template <class Source>
Result<Tally> tally_of(Source& source, const Landmarks& marks) {
  Tally out;
  static_cast<MessageCounts&>(out) = marks.counts;
  for (const std::uint64_t seq : marks.checkpoints | std::views::reverse) {
    const SeqSpan at{seq, seq};
    TRY(source.each(std::span(&at, 1), [&out](std::uint64_t, std::string_view line) {
      if (entry_type(line) == "compaction") out.summary = json::string_at(line, "summary");
      return false;
    }));
    if (out.summary) break;
  }
  return out;
}

}  // namespace

Result<Tally> tally(Transcript& transcript) {
  TRY(const Landmarks* marks, transcript.landmarks());
  return tally_of(transcript, *marks);
}

Result<Tally> tally(const MemoryTranscript& transcript) {
  Landmarks marks;
  if (transcript.count() == 0) return Tally{};
  const SeqSpan all{0, transcript.count() - 1};
  TRY(transcript.each(std::span(&all, 1), [&marks](std::uint64_t, std::string_view line) {
    marks.add(line);
    return true;
  }));
  return tally_of(transcript, marks);
}

}  // namespace sessiond::transcripts
