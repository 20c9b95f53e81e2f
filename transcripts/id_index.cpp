#include "transcripts/id_index.hpp"

#include <fcntl.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "store/crc32.hpp"
#include "store/try.hpp"
#include "transcripts/entry.hpp"
#include "transcripts/line_reader.hpp"

namespace sessiond::transcripts {
namespace {

// The sidecar holds the hashes.
constexpr std::string_view id_index_magic = "sdtridv1";  // the last character is the version

}  // namespace

std::uint32_t id_hash(std::string_view entry_id) { return std::max<std::uint32_t>(store::crc32_of(entry_id), 1); }

Result<void> IdIndex::scan(int fd, std::uint64_t first_entry, std::uint64_t end, std::string_view path) {
  if (covered.bytes >= end) return {};
  ::posix_fadvise(fd, static_cast<off_t>(covered.bytes), 0, POSIX_FADV_SEQUENTIAL);
  LineReader lines(fd, end, path);
  for (std::uint64_t at = std::max(covered.bytes, first_entry); at < end;) {
    TRY(auto next, lines.end_of(at));
    TRY(auto line, lines.line(at, next, hashes.size()));
    hashes.push_back(id_hash(entry_id(line, hashes.size())));
    at = next;
  }
  return covered.extend(fd, end, path);
}

std::string encode_sidecar(const IdIndex& index, std::uint64_t inode) {
  SidecarWriter out(id_index_magic, inode, index.covered);
  out.numbers(index.hashes);
  return std::move(out).finish();
}

std::optional<IdIndex> IdIndex::decode(std::string_view sidecar, std::uint64_t inode) {
  auto in = SidecarReader::open(sidecar, id_index_magic, inode);
  if (!in) return {};
  IdIndex index{.covered = in->covered(), .hashes = in->numbers<std::uint32_t>()};
  if (!in->complete()) return {};
  return index;
}

IdSet::IdSet(std::size_t expected) : slots_(std::bit_ceil(expected + expected / 2 + 8)) {}

std::size_t IdSet::slot_of(std::uint32_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  // Spreads the hashes: those of ids that count up differ in few bits.
  std::size_t slot = (hash * 0x9E3779B97F4A7C15ULL >> 32) & mask;
  while (slots_[slot] != 0 && slots_[slot] != hash) slot = (slot + 1) & mask;
  return slot;
}

bool IdSet::contains(std::uint32_t hash) const { return slots_[slot_of(hash)] == hash; }

void IdSet::insert(std::uint32_t hash) {
  std::uint32_t& slot = slots_[slot_of(hash)];
  if (slot == hash) return;
  slot = hash;
  if (++size_ * 4 <= slots_.size() * 3) return;
  const auto old = std::exchange(slots_, std::vector<std::uint32_t>(slots_.size() * 2));
  for (const std::uint32_t moved : old)
    if (moved != 0) slots_[slot_of(moved)] = moved;
}

}  // namespace sessiond::transcripts
