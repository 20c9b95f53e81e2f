// Lines of a file by offset, read in blocks with pread: the memory is one block and one line, whatever the file.
// Offsets are of line beginnings; the end of a line is the offset behind its '\n' (or the end of the range). A file
// that became shorter meanwhile is a Problem.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "store/problem.hpp"

namespace sessiond {

class LineReader {
 public:
  static constexpr std::size_t block_bytes = 128 << 10;
  // A longer line is given cut, and so is unreadable: nothing that we or others write comes near.
  static constexpr std::uint64_t longest_line = 64 << 20;

  // Reads [0, size) of fd, which must outlive it; `path` is for problems.
  LineReader(int fd, std::uint64_t size, std::string_view path) : fd_(fd), size_(size), path_(path) {}

  Result<std::uint64_t> end_of(std::uint64_t begin);  // of the line that begins there
  Result<std::uint64_t> begin_of(std::uint64_t end);  // of the line that ends there; end > 0
  Result<bool> begins_line(std::uint64_t offset);     // the file's beginning, or behind a '\n'
  // Without its '\n' and a '\r' before it; without a byte order mark at the beginning of the file. Good until the next
  // call.
  Result<std::string_view> text(std::uint64_t begin, std::uint64_t end);

 private:
  Result<void> load(std::uint64_t begin, std::uint64_t end);
  bool holds(std::uint64_t begin, std::uint64_t end) const { return begin >= low_ && end <= low_ + block_.size(); }

  int fd_;
  std::uint64_t size_;
  std::string path_;
  std::string block_;  // bytes [low_, low_ + block_.size())
  std::uint64_t low_ = 0;
  std::string long_line_;
};

}  // namespace sessiond
