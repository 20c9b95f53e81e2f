// A transcript's file as it would be if its lines were not sealed: what GET …/transcript and an export send. Its size
// is known before a line is opened, from the lengths of the lines. A sealed line that does not open is as long as it
// would be, of question marks. One thread at a time; blocks.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "store/files.hpp"
#include "store/problem.hpp"
#include "transcripts/line_reader.hpp"

namespace sessiond::transcripts {

class PlainFile {
 public:
  // Takes the first `end` bytes of the file, and reads through them once. session_reset if the file is not the one with
  // this inode.
  static Result<std::unique_ptr<PlainFile>> open(const std::filesystem::path& path, ino_t inode, std::uint64_t end);
  std::uint64_t size() const { return size_; }           // without seals
  std::uint64_t header_size() const { return header_; }  // with its '\n'; 0: there is none

  // Returns bytes from `offset` on: about `most`, at least one before the end. Cheap if it goes on from the last call.
  Result<std::string> read(std::uint64_t offset, std::size_t most);

 private:
  struct Position {
    std::uint64_t stored = 0;  // where a line begins in the file
    std::uint64_t plain = 0;   // and without seals
    std::uint64_t lines = 0;   // before it
  };

  PlainFile(store::Fd fd, std::uint64_t end, const std::string& path)
      : fd_(std::move(fd)), end_(end), reader_(fd_.get(), end, path) {}
  Result<std::uint64_t> plain_size(std::uint64_t begin, std::uint64_t end);
  Result<std::string> opened(const Position& line, std::uint64_t end);

  store::Fd fd_;
  std::uint64_t end_;
  LineReader reader_;
  std::uint64_t size_ = 0;
  std::uint64_t header_ = 0;
  Position next_{};
};

}  // namespace sessiond::transcripts
