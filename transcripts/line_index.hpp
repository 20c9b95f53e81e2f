// Where the entries of a transcript begin: the offset of every 64th, so that any entry is at most 63 lines away. Made
// by one pass over the file for newlines (no parsing), extended by what is appended, kept in a sidecar beside it.
//
// A sidecar (or an index in memory, when the file has changed) is taken over when the inode is the same, the file is
// not shorter than what was covered, and the last 4 KiB of that have the same CRC-32; then only the rest is scanned.
// Not ctime equality: every append of ours moves it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/problem.hpp"

namespace sessiond {

struct LineIndex {
  static constexpr std::uint64_t stride = 64;

  bool has_header = false;
  std::uint64_t covered = 0;           // bytes [0, covered) were scanned; they are whole lines
  std::uint64_t lines = 0;             // entries in them
  std::vector<std::uint64_t> offsets;  // of entries 0, 64, …; lines / stride + 1 of them once the first line is whole
  std::uint32_t tail_crc = 0;          // of the last 4 KiB of [0, covered)
  std::string last_id;                 // of the last readable entry in [0, covered)

  // Goes on from `covered` to the last '\n' before `size`.
  Result<void> scan(int fd, std::uint64_t size, std::string_view path);
  // Does the file still hold what was covered?
  Result<bool> fits(int fd, std::uint64_t size, std::string_view path) const;
};

// Is a first line a transcript's header, {"type":"session",…}?
bool is_header(std::string_view line);
// A header is never longer; neither first lines above this nor damaged ones are one.
inline constexpr std::uint64_t longest_header = 1 << 20;

std::string encode_sidecar(const LineIndex& index, std::uint64_t inode);
// Nothing when it is damaged, of another version or of another inode.
std::optional<LineIndex> decode_sidecar(std::string_view bytes, std::uint64_t inode);

}  // namespace sessiond
