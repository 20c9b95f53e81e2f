// Finds entries by id: a 32-bit hash of each entry's id, in the order of seq. A search passes over all hashes (4 bytes
// an entry, 2 ms for 2 million), and reads the line of each hit to see whether it is the right one.
//
// The index is made the first time that an id is searched which is not near the end: that parses every line once.
// Later, only new lines are parsed. It is kept over a restart in a sidecar of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/problem.hpp"
#include "transcripts/sidecar.hpp"

namespace sessiond::transcripts {

std::uint32_t id_hash(std::string_view entry_id);  // CRC-32, but 1 instead of 0

struct IdIndex {
  Covered covered{};
  std::vector<std::uint32_t> hashes;  // of entries 0, 1, …

  std::uint64_t entries() const { return hashes.size(); }
  static std::optional<IdIndex> decode(std::string_view sidecar, std::uint64_t inode);

  // Extends the index from what is covered (at first from `first_entry`, where the header ends) to `end`, the end of a
  // line. Blocks.
  Result<void> scan(int fd, std::uint64_t first_entry, std::uint64_t end, std::string_view path);
};

std::string encode_sidecar(const IdIndex& index, std::uint64_t inode);

// A set of id hashes. If it does not contain an id's hash, there is certainly no such id. 4 bytes a slot; at most three
// quarters of the slots are used.
class IdSet {
 public:
  explicit IdSet(std::size_t expected = 0);
  void insert(std::uint32_t hash);
  bool contains(std::uint32_t hash) const;

 private:
  std::size_t slot_of(std::uint32_t hash) const;  // the slot that has it, or the free one for it

  std::vector<std::uint32_t> slots_;  // their number is a power of two; 0: free
  std::size_t size_ = 0;
};

}  // namespace sessiond::transcripts
