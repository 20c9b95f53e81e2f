#include "transcripts/lost_lines.hpp"

#include <algorithm>

#include "store/clock.hpp"
#include "store/files.hpp"
#include "store/try.hpp"
#include "transcripts/entry.hpp"
#include "transcripts/line_index.hpp"

namespace sessiond::transcripts {
namespace {

constexpr std::string_view lost_entry = "(lost: this entry is neither in the file nor in the journal)";

// Makes `count` lines that cannot be read of `bytes` bytes together. Each has 2 bytes at least.
void append_lost(std::string& out, std::uint64_t count, std::uint64_t bytes) {
  for (; count > 0; --count) {
    const std::uint64_t usual = std::min<std::uint64_t>(lost_entry.size(), bytes / count - 1);
    const std::uint64_t length = count == 1 ? bytes - 1 : usual;  // the last one takes the rest
    std::string line(lost_entry.substr(0, std::min<std::uint64_t>(length, lost_entry.size())));
    line.resize(length, ' ');
    out.append(line).append("\n");
    bytes -= length + 1;
  }
}

}  // namespace

Result<LostLines> LostLines::behind(int fd, std::uint64_t size, const std::filesystem::path& path) {
  constexpr std::uint64_t piece = 1 << 20;
  std::uint64_t lines = 0;
  bool has_header = false;
  bool ends = true;
  for (std::uint64_t at = 0; at < size; at += piece) {
    TRY(const auto text, store::read_at(fd, at, std::min(piece, size - at), path.native()));
    if (at == 0) has_header = is_header(std::string_view(text).substr(0, text.find('\n')));
    lines += static_cast<std::uint64_t>(std::ranges::count(text, '\n'));
    ends = text.ends_with('\n');
  }
  const std::string stem = path.stem().native();
  return LostLines(stem.substr(0, stem.find("-topic-")), size, lines - (has_header && lines > 0 ? 1 : 0), ends);
}

void LostLines::add(const PlacedLine& line) {
  const std::uint64_t end = begin_ + text_.size();
  if (line.offset + line.line.size() <= end) return;  // it is there twice
  if (over_ || open_ || line.offset < end || (line.seq && *line.seq < next_seq_)) {
    over_ = true;
    return;
  }
  std::uint64_t gap = line.offset - end;
  const std::uint64_t lost = line.seq ? *line.seq - next_seq_ : 0;
  std::string between;
  if (end == 0 && gap > 0) {
    std::string header = header_line(session_id_, store::unix_ms(), {}, {});
    const std::uint64_t room = gap - std::min(gap, 2 * lost);
    if (header.size() <= room) {
      if (lost == 0) header.insert(header.size() - 1, gap - header.size(), ' ');
      gap -= header.size();
      between = std::move(header);
    }
  }
  if (gap < 2 * lost || (lost == 0 && gap > 0)) {
    over_ = true;
    return;
  }
  append_lost(between, lost, gap);
  text_.append(between).append(line.line);
  next_seq_ = line.seq ? *line.seq + 1 : next_seq_;
}

std::string lost_transcript(std::string_view session_id, std::uint64_t entries) {
  std::string text = header_line(session_id, store::unix_ms(), {}, {});
  append_lost(text, entries, entries * (lost_entry.size() + 1));
  return text;
}

}  // namespace sessiond::transcripts
