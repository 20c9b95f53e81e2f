// Lines of a segment in order, read in pieces with pread between two offsets. A line is as long as it is: memory is
// that of the longest.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "store/problem.hpp"

namespace sessiond::journal {

class LineReader {
 public:
  struct Raw {
    std::uint64_t offset = 0;  // of its first byte in the file
    std::string_view text;     // without '\n'; good until the next call
    bool ended = true;         // false: the end came before a '\n'
  };
  // Reads [offset, end) of the file; `name` for problems.
  LineReader(int fd, std::uint64_t offset, std::uint64_t end, std::string name);
  // Nothing at the end; io_problem when the disk fails.
  Result<std::optional<Raw>> next();

 private:
  Result<bool> fill();  // false: nothing more to read

  int fd_;
  std::uint64_t read_to_;  // file offset behind the buffer
  std::uint64_t end_;
  std::string name_;
  std::string buffer_{};
  std::size_t at_ = 0;  // start of the next line in the buffer
};

}  // namespace sessiond::journal
