#include "transcripts/shown_lines.hpp"

#include "transcripts/entry.hpp"

namespace sessiond::transcripts {

std::string_view ShownLines::show(std::string_view line, std::uint64_t seq) {
  if (line.size() > longest) return not_kept_ = view_entry(line, seq, View::full).value_or("{}");
  kept_.resize(most_lines);
  Kept& kept = kept_[seq % most_lines];
  if (kept.shown.empty() || kept.seq != seq || kept.line != line)
    kept = {.seq = seq, .line = std::string(line), .shown = view_entry(line, seq, View::full).value_or("{}")};
  return kept.shown;
}

}  // namespace sessiond::transcripts
