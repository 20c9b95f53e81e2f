// Where batches stand in a segment, about every 64 KiB: a page is found without reading the segment from its start. In
// memory for the live segment, in <segment without .jsonl>.idx for sealed ones; the file is made again by a scan
// whenever it is missing or does not fit, so it is never fsynced. Layout, little-endian u64: "SDJIDX1\n", first, next,
// end, count, count × (seq, offset), CRC-32 of all before it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "store/problem.hpp"

namespace sessiond::journal {

class SparseIndex {
 public:
  void add(std::uint64_t seq, std::uint64_t offset);  // of every line; keeps what it needs
  // Offset of a line at or before the first one that can hold `seq`, zero-event batches before it included.
  std::uint64_t offset_for(std::uint64_t seq) const;

  struct Entry {
    std::uint64_t seq = 0;
    std::uint64_t offset = 0;
  };
  std::vector<Entry> entries{};
};

// What a sealed segment holds: seqs [first, next) in bytes [0, end).
struct SealedIndex {
  std::uint64_t first = 0;
  std::uint64_t next = 0;
  std::uint64_t end = 0;
  SparseIndex index{};
};

std::filesystem::path index_path(const std::filesystem::path& segment);
Result<void> save_index(const std::filesystem::path& segment, const SealedIndex& sealed);
std::optional<SealedIndex> load_index(const std::filesystem::path& segment);  // nothing when missing or damaged

}  // namespace sessiond::journal
