// Reads lines of a file by their offsets, in blocks. Uses the memory of one block and one line, however large the file
// is. A line ends behind its '\n', or at the end of the range. A file that became shorter meanwhile is a Problem.
// Blocks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "store/problem.hpp"

namespace sessiond::transcripts {

class LineReader {
 public:
  static constexpr std::size_t block_bytes = 128 << 10;
  // A longer line is cut, which makes it unreadable.
  static constexpr std::uint64_t longest_line = 64 << 20;

  // Reads [0, size) of `fd`, which must stay open. `path` is named in problems.
  LineReader(int fd, std::uint64_t size, std::string_view path) : fd_(fd), size_(size), path_(path) {}

  Result<std::uint64_t> end_of(std::uint64_t begin);  // `begin` is the beginning of a line
  Result<std::uint64_t> begin_of(std::uint64_t end);  // `end` is the end of a line; it must not be 0
  Result<bool> begins_line(std::uint64_t offset);     // true at 0 and behind a '\n'
  // Returns the line without its '\n' or "\r\n", and without the byte order mark of the file. Valid until the next
  // call.
  Result<std::string_view> text(std::uint64_t begin, std::uint64_t end);
  // The same, opened if it is sealed: the line of the entry `seq`, or header_seq (sealed_lines.hpp). One that does not
  // open is closed_line.
  Result<std::string_view> line(std::uint64_t begin, std::uint64_t end, std::uint64_t seq);

 private:
  Result<std::string> read(std::uint64_t begin, std::uint64_t end) const;
  std::string_view open(std::string_view sealed, std::uint64_t seq);
  Result<void> load(std::uint64_t begin, std::uint64_t end);
  bool holds(std::uint64_t begin, std::uint64_t end) const { return begin >= low_ && end <= low_ + block_.size(); }

  int fd_;
  std::uint64_t size_;
  std::string path_;
  std::string block_;  // bytes [low_, low_ + block_.size())
  std::uint64_t low_ = 0;
  std::string long_line_;
  std::string opened_;
  std::string scope_;  // seal_scope(path_), once it is needed
};

}  // namespace sessiond::transcripts
