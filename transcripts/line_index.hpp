// Finds the entries of a transcript: the offset of every 64th entry, so that any entry is at most 63 lines away. Made
// by one pass over the file that looks for newlines only, extended when the file grows, and kept in a sidecar
// (sidecar.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/problem.hpp"
#include "transcripts/sidecar.hpp"

namespace sessiond::transcripts {

struct LineIndex {
  static constexpr std::uint64_t stride = 64;

  bool has_header = false;
  Covered covered{};
  std::uint64_t lines = 0;  // entries in the covered part
  std::vector<std::uint64_t>
      offsets;          // of entries 0, 64, …; empty until the first line is whole, then lines / stride + 1
  std::string last_id;  // of the last readable entry in the covered part

  // Extends the index to the last '\n' before `size`. Returns false if it stopped after about `budget` bytes. Blocks.
  Result<bool> scan(int fd, std::uint64_t size, std::string_view path, std::uint64_t budget);
};

// Tells whether a first line is the header of a transcript, {"type":"session",…}.
bool is_header(std::string_view line);
// A longer first line is not a header.
inline constexpr std::uint64_t longest_header = 1 << 20;

std::string encode_sidecar(const LineIndex& index, std::uint64_t inode);
std::optional<LineIndex> decode_sidecar(std::string_view bytes, std::uint64_t inode);

}  // namespace sessiond::transcripts
