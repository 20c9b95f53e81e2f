#include "transcripts/line_index.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "store/files.hpp"
#include "transcripts/entry.hpp"
#include "transcripts/line_reader.hpp"

namespace sessiond {
namespace {

constexpr std::size_t scan_bytes = 1 << 20;

Result<bool> begins_with_header(int fd, std::uint64_t end, std::string_view path) {
  if (end > longest_header) return false;
  LineReader reader(fd, end, path);
  auto line = reader.text(0, end);
  if (!line) return std::unexpected(line.error());
  return is_header(*line);
}

// The last readable entry among those that are new, from the end backwards. Another header in the middle is no parent.
Result<void> find_last_id(LineIndex& index, std::uint64_t old_lines, int fd, std::string_view path) {
  LineReader reader(fd, index.covered.bytes, path);
  std::uint64_t end = index.covered.bytes;
  for (std::uint64_t seq = index.lines; seq-- > old_lines;) {
    auto begin = reader.begin_of(end);
    if (!begin) return std::unexpected(begin.error());
    auto line = reader.text(*begin, end);
    if (!line) return std::unexpected(line.error());
    if (const std::string type = entry_type(*line); type != "unreadable" && type != "session") {
      index.last_id = entry_id(*line, seq);
      return {};
    }
    end = *begin;
  }
  return {};
}

// What it holds: lines, has_header (1), last_id, offsets.
constexpr std::string_view line_index_magic = "sdtrixv2";  // the last character is the version

}  // namespace

bool is_header(std::string_view line) { return entry_type(line) == "session"; }

Result<bool> LineIndex::scan(int fd, std::uint64_t size, std::string_view path, std::uint64_t budget) {
  const std::uint64_t old_lines = lines;
  const std::uint64_t begin = covered.bytes;
  ::posix_fadvise(fd, static_cast<off_t>(begin), 0, POSIX_FADV_SEQUENTIAL);
  std::uint64_t whole = begin;  // where the last whole line ends
  std::uint64_t at = begin;
  while (at < size && (at - begin < budget || whole == begin)) {
    auto block = read_at(fd, at, std::min<std::uint64_t>(scan_bytes, size - at), path);
    if (!block) return std::unexpected(block.error());
    if (block->empty()) break;  // cut meanwhile: the next refresh sees it
    const char* const data = block->data();
    const char* const data_end = data + block->size();
    for (const char* from = data; from < data_end;) {
      const void* hit = std::memchr(from, '\n', static_cast<std::size_t>(data_end - from));
      if (hit == nullptr) break;
      from = static_cast<const char*>(hit) + 1;
      whole = at + static_cast<std::uint64_t>(from - data);
      if (offsets.empty()) {
        auto header = begins_with_header(fd, whole, path);
        if (!header) return std::unexpected(header.error());
        has_header = *header;
        offsets.push_back(has_header ? whole : 0);
        if (has_header) continue;
      }
      if (++lines % stride == 0) offsets.push_back(whole);
    }
    at += block->size();
  }
  const bool done = at >= size || at - begin < budget;
  if (whole == begin) return done;
  if (auto extended = covered.extend(fd, whole, path); !extended) return std::unexpected(extended.error());
  if (auto found = find_last_id(*this, old_lines, fd, path); !found) return std::unexpected(found.error());
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

}  // namespace sessiond
