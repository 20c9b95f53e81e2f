// Which entry has which id: a 32-bit hash of every entry's id, by seq. An id is looked for by one pass over the hashes
// (4 bytes an entry, 2 ms for 2 million), and the line that is hit says whether it is the one. Made by parsing every
// line once, the first time that somebody asks for an id that is not near the end; then extended by what is new and
// kept in a sidecar of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/problem.hpp"
#include "transcripts/sidecar.hpp"

namespace sessiond {

std::uint32_t id_hash(std::string_view entry_id);  // CRC-32, and 1 where that is 0: never 0

struct IdIndex {
  Covered covered{};
  std::vector<std::uint32_t> hashes;  // of entries 0, 1, …

  // Goes on from what is covered (or `first_entry`, where the header ends) to `end`, which is the end of a line.
  Result<void> scan(int fd, std::uint64_t first_entry, std::uint64_t end, std::string_view path);
};

std::string encode_sidecar(const IdIndex& index, std::uint64_t inode);
std::optional<IdIndex> decode_id_sidecar(std::string_view bytes, std::uint64_t inode);

// A set of such hashes: an id whose hash is not in it is not there for certain. 4 bytes for each of its slots, of which
// at most three quarters are taken.
class IdSet {
 public:
  explicit IdSet(std::size_t expected = 0);
  void insert(std::uint32_t hash);
  bool contains(std::uint32_t hash) const;

 private:
  std::size_t slot_of(std::uint32_t hash) const;  // where it is, or would go

  std::vector<std::uint32_t> slots_;  // a power of two of them; 0: free
  std::size_t size_ = 0;
};

}  // namespace sessiond
