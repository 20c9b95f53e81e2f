#include "transcripts/line_index.hpp"

#include <fcntl.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "store/files.hpp"
#include "transcripts/entry.hpp"
#include "transcripts/line_reader.hpp"

namespace sessiond {
namespace {

constexpr std::size_t scan_bytes = 1 << 20;
constexpr std::uint64_t hashed_tail = 4096;

std::uint32_t crc_of(std::string_view bytes) {
  return static_cast<std::uint32_t>(::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

Result<std::uint32_t> crc_before(int fd, std::uint64_t end, std::string_view path) {
  const std::uint64_t length = std::min(end, hashed_tail);
  auto bytes = read_at(fd, end - length, length, path);
  if (!bytes) return std::unexpected(bytes.error());
  return crc_of(*bytes);
}

Result<bool> begins_with_header(int fd, std::uint64_t end, std::string_view path) {
  if (end > longest_header) return false;
  LineReader reader(fd, end, path);
  auto line = reader.text(0, end);
  if (!line) return std::unexpected(line.error());
  return is_header(*line);
}

// The last readable entry among those that are new, from the end backwards. Another header in the middle is no parent.
Result<void> find_last_id(LineIndex& index, std::uint64_t old_lines, int fd, std::string_view path) {
  LineReader reader(fd, index.covered, path);
  std::uint64_t end = index.covered;
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

void put(std::string& out, std::uint64_t number, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) out += static_cast<char>((number >> (8 * i)) & 0xFF);
}

class Decoder {
 public:
  explicit Decoder(std::string_view bytes) : rest_(bytes) {}
  std::uint64_t take(std::size_t bytes) {
    const std::string_view text = take_text(bytes);
    std::uint64_t number = 0;
    for (std::size_t i = text.size(); i-- > 0;) number = number << 8 | static_cast<unsigned char>(text[i]);
    return number;
  }
  std::string_view take_text(std::uint64_t bytes) {
    if (bytes > rest_.size()) {
      short_ = true;
      return {};
    }
    const std::string_view text = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return text;
  }
  std::size_t left() const { return rest_.size(); }
  bool complete() const { return !short_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool short_ = false;
};

// Little endian: magic, inode, covered, lines, has_header (1), tail_crc (4), length of last_id (4), last_id, number of
// offsets, offsets, CRC-32 of all that (4); numbers of 8 bytes where nothing is said.
constexpr std::string_view magic = "sdtrixv1";  // the last character is the version

}  // namespace

bool is_header(std::string_view line) { return entry_type(line) == "session"; }

Result<void> LineIndex::scan(int fd, std::uint64_t size, std::string_view path) {
  ::posix_fadvise(fd, static_cast<off_t>(covered), 0, POSIX_FADV_SEQUENTIAL);
  const std::uint64_t old_lines = lines;
  const std::uint64_t old_covered = covered;
  for (std::uint64_t at = covered; at < size;) {
    auto block = read_at(fd, at, std::min<std::uint64_t>(scan_bytes, size - at), path);
    if (!block) return std::unexpected(block.error());
    if (block->empty()) break;  // cut meanwhile: the next refresh sees it
    const char* const data = block->data();
    const char* const data_end = data + block->size();
    for (const char* from = data; from < data_end;) {
      const void* hit = std::memchr(from, '\n', static_cast<std::size_t>(data_end - from));
      if (hit == nullptr) break;
      from = static_cast<const char*>(hit) + 1;
      covered = at + static_cast<std::uint64_t>(from - data);
      if (offsets.empty()) {
        auto header = begins_with_header(fd, covered, path);
        if (!header) return std::unexpected(header.error());
        has_header = *header;
        offsets.push_back(has_header ? covered : 0);
        if (has_header) continue;
      }
      if (++lines % stride == 0) offsets.push_back(covered);
    }
    at += block->size();
  }
  if (covered == old_covered) return {};
  auto crc = crc_before(fd, covered, path);
  if (!crc) return std::unexpected(crc.error());
  tail_crc = *crc;
  return find_last_id(*this, old_lines, fd, path);
}

Result<bool> LineIndex::fits(int fd, std::uint64_t size, std::string_view path) const {
  if (size < covered) return false;
  if (covered == 0) return true;
  auto crc = crc_before(fd, covered, path);
  if (!crc) return std::unexpected(crc.error());
  return *crc == tail_crc;
}

std::string encode_sidecar(const LineIndex& index, std::uint64_t inode) {
  std::string out(magic);
  out.reserve(64 + index.last_id.size() + 8 * index.offsets.size());
  put(out, inode, 8);
  put(out, index.covered, 8);
  put(out, index.lines, 8);
  put(out, index.has_header ? 1 : 0, 1);
  put(out, index.tail_crc, 4);
  put(out, index.last_id.size(), 4);
  out += index.last_id;
  put(out, index.offsets.size(), 8);
  for (const std::uint64_t offset : index.offsets) put(out, offset, 8);
  put(out, crc_of(out), 4);
  return out;
}

std::optional<LineIndex> decode_sidecar(std::string_view bytes, std::uint64_t inode) {
  if (!bytes.starts_with(magic) || bytes.size() < magic.size() + 4) return {};
  const std::string_view summed = bytes.substr(0, bytes.size() - 4);
  if (Decoder(bytes.substr(summed.size())).take(4) != crc_of(summed)) return {};
  Decoder decoder(summed.substr(magic.size()));
  if (decoder.take(8) != inode) return {};
  LineIndex index;
  index.covered = decoder.take(8);
  index.lines = decoder.take(8);
  index.has_header = decoder.take(1) != 0;
  index.tail_crc = static_cast<std::uint32_t>(decoder.take(4));
  index.last_id = decoder.take_text(decoder.take(4));
  const std::uint64_t count = decoder.take(8);
  if (count != decoder.left() / 8 || count != index.lines / LineIndex::stride + 1) return {};
  index.offsets.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) index.offsets.push_back(decoder.take(8));
  if (!decoder.complete() || !std::ranges::is_sorted(index.offsets) || index.offsets.back() > index.covered) return {};
  return index;
}

}  // namespace sessiond
