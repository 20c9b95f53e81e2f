// Reads the lines of a file in order, between two offsets. Lines may have any length; it holds one of them in memory,
// and reads ahead in pieces of 256 KiB. (transcripts/line_reader.hpp finds lines at any offset, backwards too.)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "store/problem.hpp"

namespace sessiond::store {

class SequentialLines {
 public:
  struct Raw {
    std::uint64_t offset = 0;  // of its first byte in the file
    std::string_view text;     // without '\n'; valid until the next call
    bool ended = true;         // false: the range ends before a '\n'
  };
  // Reads bytes [offset, end) of the file, or up to its end. `name` is for problems.
  SequentialLines(int fd, std::uint64_t offset, std::uint64_t end, std::string name);
  // The next line; nothing at the end. An io_problem when the disk fails.
  Result<std::optional<Raw>> next();

 private:
  Result<bool> fill();  // false: there is nothing more to read

  int fd_;
  std::uint64_t read_to_;  // file offset behind the buffer
  std::uint64_t end_;
  std::string name_;
  std::string buffer_{};
  std::size_t at_ = 0;  // start of the next line in the buffer
};

}  // namespace sessiond::store
