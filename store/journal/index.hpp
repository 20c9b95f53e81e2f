// A sparse index of a segment: the offset of a batch about every 64 KiB. With it a reader finds a seq without reading
// the segment from its start.
//
// The index of the live segment is in memory. Sealed segments have it in <segment without .jsonl>.idx. The file is made
// again whenever it is missing or does not fit the segment, so it is never fsynced. Its layout is little-endian u64:
// "SDJIDX1\n", first, next, end, count, count × (seq, offset), CRC-32 of all before it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "store/problem.hpp"

namespace sessiond::journal {

class SparseIndex {
 public:
  void add(std::uint64_t seq, std::uint64_t offset);  // call it for every line; it keeps one in 64 KiB
  // The offset of a line at or before the batch that has `seq`, and before batches without events in front of it.
  std::uint64_t offset_for(std::uint64_t seq) const;

  struct Entry {
    std::uint64_t seq = 0;
    std::uint64_t offset = 0;
  };
  std::vector<Entry> entries{};
};

// The content of a sealed segment: seqs [first, next) in bytes [0, end).
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
