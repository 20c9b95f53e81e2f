#include "transcripts/line_index.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "store/files.hpp"
#include "store/try.hpp"
#include "transcripts/entry.hpp"
#include "transcripts/line_reader.hpp"
#include "transcripts/sealed_lines.hpp"

namespace sessiond::transcripts {
namespace {

constexpr std::size_t scan_bytes = 1 << 20;

Result<bool> begins_with_header(int fd, std::uint64_t end, std::string_view path) {
  if (end > longest_header) return false;
  LineReader reader(fd, end, path);
  TRY(auto line, reader.line(0, end, header_seq));
  return is_header(line);
}

// Finds the last readable entry among the new ones, from the end backwards. A second header does not count.
Result<void> find_last_id(LineIndex& index, std::uint64_t old_lines, int fd, std::string_view path) {
  LineReader reader(fd, index.covered.bytes, path);
  std::uint64_t end = index.covered.bytes;
  for (std::uint64_t seq = index.lines; seq-- > old_lines;) {
    TRY(auto begin, reader.begin_of(end));
    TRY(auto line, reader.line(begin, end, seq));
    if (const std::string type = entry_type(line); type != "unreadable" && type != "session") {
      index.last_id = entry_id(line, seq);
      return {};
    }
    end = begin;
  }
  return {};
}

// The sidecar holds lines, has_header (1 byte), last_id and offsets.
constexpr std::string_view line_index_magic = "sdtrixv2";  // the last character is the version

}  // namespace

bool is_header(std::string_view line) { return entry_type(line) == "session"; }

Result<bool> LineIndex::scan(int fd, std::uint64_t size, std::string_view path, std::uint64_t budget) {
  const std::uint64_t old_lines = lines;
  const std::uint64_t begin = covered.bytes;
  ::posix_fadvise(fd, static_cast<off_t>(begin), 0, POSIX_FADV_SEQUENTIAL);
  std::uint64_t whole = begin;  // end of the last whole line
  std::uint64_t at = begin;
  while (at < size && (at - begin < budget || whole == begin)) {
    TRY(auto block, store::read_at(fd, at, std::min<std::uint64_t>(scan_bytes, size - at), path));
    if (block.empty()) break;  // the file was cut meanwhile; the next refresh sees that
    const char* const data = block.data();
    const char* const data_end = data + block.size();
    for (const char* from = data; from < data_end;) {
      const void* hit = std::memchr(from, '\n', static_cast<std::size_t>(data_end - from));
      if (hit == nullptr) break;
      from = static_cast<const char*>(hit) + 1;
      whole = at + static_cast<std::uint64_t>(from - data);
      if (offsets.empty()) {
        TRY(has_header, begins_with_header(fd, whole, path));
        offsets.push_back(has_header ? whole : 0);
        if (has_header) continue;
      }
      if (++lines % stride == 0) offsets.push_back(whole);
    }
    at += block.size();
  }
  const bool done = at >= size || at - begin < budget;
  if (whole == begin) return done;
  TRY(covered.extend(fd, whole, path));
  TRY(find_last_id(*this, old_lines, fd, path));
  return done;
}

std::string encode_sidecar(const LineIndex& index, std::uint64_t inode) {
  SidecarWriter out(line_index_magic, inode, index.covered);
  out.number(index.lines);
  out.number(index.has_header ? 1 : 0, 1);
  out.text(index.last_id);
  out.numbers(index.offsets);
  return std::move(out).finish();
}

std::optional<LineIndex> decode_sidecar(std::string_view bytes, std::uint64_t inode) {
  auto in = SidecarReader::open(bytes, line_index_magic, inode);
  if (!in) return {};
  LineIndex index;
  index.covered = in->covered();
  index.lines = in->number();
  index.has_header = in->number(1) != 0;
  index.last_id = in->text();
  index.offsets = in->numbers<std::uint64_t>();
  if (!in->complete() || index.offsets.size() != index.lines / LineIndex::stride + 1 ||
      !std::ranges::is_sorted(index.offsets) || index.offsets.back() > index.covered.bytes)
    return {};
  return index;
}

}  // namespace sessiond::transcripts
