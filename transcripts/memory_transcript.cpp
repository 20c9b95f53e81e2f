#include "transcripts/memory_transcript.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "transcripts/entry.hpp"
#include "transcripts/page_builder.hpp"

namespace sessiond::transcripts {

void MemoryTranscript::add_header(std::string_view line) {
  header_ = line;
  bytes_ += line.size();
}

void MemoryTranscript::add(std::string_view line, std::int64_t now) {
  last_.begins.push_back(last_.text.size());
  last_.text += line;
  bytes_ += line.size();
  updated_at_ = now;
  if (last_.text.size() < chunk_bytes) return;
  const std::uint64_t next = count();
  full_.push_back(std::make_shared<const Chunk>(std::exchange(last_, {.first = next})));
}

std::string MemoryTranscript::text() const {
  std::string text;
  text.reserve(bytes_);
  text += header_;
  for (const auto& chunk : full_) text += chunk->text;
  return text += last_.text;
}

std::string_view MemoryTranscript::line(std::uint64_t seq) const {
  const Chunk* chunk = &last_;
  if (seq < last_.first) {
    const auto behind = std::ranges::upper_bound(full_, seq, {}, [](const auto& full) { return full->first; });
    chunk = std::prev(behind)->get();
  }
  const std::size_t at = seq - chunk->first;
  const std::size_t end = at + 1 == chunk->begins.size() ? chunk->text.size() : chunk->begins[at + 1];
  return std::string_view(chunk->text).substr(chunk->begins[at], end - chunk->begins[at] - 1);
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

Result<Transcript::Found> MemoryTranscript::find(std::span<const std::string> entry_ids,
                                                 const IsMeant& is_meant) const {
  std::set<std::string_view> open(entry_ids.begin(), entry_ids.end());
  Transcript::Found found;
  for (std::uint64_t seq = count(); seq-- > 0 && !open.empty();) {
    std::string id = entry_id(line(seq), seq);
    if (open.contains(id) && (!is_meant || is_meant(id, seq)) && open.erase(id) != 0)
      found.emplace(std::move(id), StoredLine{.seq = seq, .line = std::string(line(seq))});
  }
  return found;
}

IdSet MemoryTranscript::ids() const {
  IdSet ids(count());
  for (std::uint64_t seq = 0; seq < count(); ++seq) ids.insert(id_hash(transcripts::entry_id(line(seq), seq)));
  return ids;
}

}  // namespace sessiond::transcripts
