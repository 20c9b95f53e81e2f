// Where the entries of a transcript begin: the offset of every 64th, so that any entry is at most 63 lines away. Made
// by one pass over the file for newlines (no parsing), extended by what is appended, kept in a sidecar (sidecar.hpp
// says when that is good).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/problem.hpp"
#include "transcripts/sidecar.hpp"

namespace sessiond {

struct LineIndex {
  static constexpr std::uint64_t stride = 64;

  bool has_header = false;
  Covered covered{};
  std::uint64_t lines = 0;             // entries in what is covered
  std::vector<std::uint64_t> offsets;  // of entries 0, 64, …; lines / stride + 1 of them once the first line is whole
  std::string last_id;                 // of the last readable entry in what is covered

  // Goes on to the last '\n' before `size`, or over about `budget` bytes: then false, there is more.
  Result<bool> scan(int fd, std::uint64_t size, std::string_view path, std::uint64_t budget);
};

// Is a first line a transcript's header, {"type":"session",…}?
bool is_header(std::string_view line);
// A header is never longer; neither first lines above this nor damaged ones are one.
inline constexpr std::uint64_t longest_header = 1 << 20;

std::string encode_sidecar(const LineIndex& index, std::uint64_t inode);
std::optional<LineIndex> decode_sidecar(std::string_view bytes, std::uint64_t inode);

}  // namespace sessiond
