#include "transcripts/memory_transcript.hpp"

#include "transcripts/entry.hpp"
#include "transcripts/page_builder.hpp"

namespace sessiond::transcripts {

void MemoryTranscript::add(std::string_view line, std::int64_t now) {
  begins_.push_back(text_.size());
  text_ += line;
  updated_at_ = now;
}

std::string_view MemoryTranscript::line(std::uint64_t seq) const {
  const std::uint64_t end = seq + 1 == count() ? text_.size() : begins_[seq + 1];
  return std::string_view(text_).substr(begins_[seq], end - begins_[seq] - 1);
}

Result<TranscriptPage> MemoryTranscript::page(const PageQuery& query) const {
  const auto [low, high] = page_range(query, count());
  PageBuilder page(query);
  for (std::uint64_t looked = 0; low + looked < high; ++looked) {
    const std::uint64_t seq = query.descending ? high - 1 - looked : low + looked;
    if (page.full() || !page.take(seq, line(seq))) return std::move(page).finish(true);
  }
  return std::move(page).finish(false);
}

Result<void> MemoryTranscript::each(std::span<const SeqSpan> spans, const Take& take) const {
  for (const SeqSpan& span : spans)
    for (std::uint64_t seq = span.first; seq <= span.last && seq < count(); ++seq)
      if (!take(seq, line(seq))) return {};
  return {};
}

std::string MemoryTranscript::show(const StoredLine& line) const {
  return view_entry(line.line, line.seq, View::full).value_or("{}");
}

Result<std::optional<StoredLine>> MemoryTranscript::find(std::string_view entry_id, const IsMeant& is_meant) const {
  for (std::uint64_t seq = count(); seq-- > 0;) {
    if (transcripts::entry_id(line(seq), seq) == entry_id && (!is_meant || is_meant(entry_id, seq)))
      return StoredLine{.seq = seq, .line = std::string(line(seq))};
  }
  return std::nullopt;
}

IdSet MemoryTranscript::ids() const {
  IdSet ids(count());
  for (std::uint64_t seq = 0; seq < count(); ++seq) ids.insert(id_hash(transcripts::entry_id(line(seq), seq)));
  return ids;
}

}  // namespace sessiond::transcripts
