// Shared by the indexes of a transcript: which part of the file an index covers, and the file ("sidecar") that keeps
// an index over a restart.
//
// An index is used again, from its sidecar or in memory after the file changed, if the inode is the same, the file is
// not shorter than the covered part, and the last 4 KiB of that part have the same CRC-32. Then only the rest is read.
// The ctime is not compared: each of our own appends changes it.
//
// A sidecar is little endian: magic (8 bytes), inode, covered bytes, CRC of their tail (4), the index, CRC-32 of all
// that (4). Numbers have 8 bytes if nothing else is said.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/problem.hpp"

namespace sessiond::transcripts {

struct Covered {
  std::uint64_t bytes = 0;     // [0, bytes) is covered; these are whole lines
  std::uint32_t tail_crc = 0;  // of their last 4 KiB

  // Tells whether the file still begins with the covered part.
  Result<bool> fits(int fd, std::uint64_t size, std::string_view path) const;
  Result<void> extend(int fd, std::uint64_t end, std::string_view path);
};

class SidecarWriter {
 public:
  SidecarWriter(std::string_view magic, std::uint64_t inode, const Covered& covered);
  void number(std::uint64_t value, std::size_t bytes = 8);
  void text(std::string_view text);  // its length (4 bytes), then its bytes
  template <class Number>
  void numbers(const std::vector<Number>& values) {  // their count, then each
    number(values.size());
    out_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Number));
  }
  std::string finish() &&;

 private:
  std::string out_;
};

class SidecarReader {
 public:
  // Returns nothing if the sidecar is damaged, or of another kind or inode.
  static std::optional<SidecarReader> open(std::string_view bytes, std::string_view magic, std::uint64_t inode);

  const Covered& covered() const { return covered_; }
  std::uint64_t number(std::size_t bytes = 8);
  std::string text();
  template <class Number>
  std::vector<Number> numbers() {
    const std::uint64_t count = number();
    if (count > rest_.size() / sizeof(Number)) {
      short_ = true;
      return {};
    }
    std::vector<Number> values(count);
    if (count != 0) std::memcpy(values.data(), rest_.data(), count * sizeof(Number));
    rest_.remove_prefix(count * sizeof(Number));
    return values;
  }
  bool complete() const { return !short_ && rest_.empty(); }  // all was read, and nothing was missing

 private:
  explicit SidecarReader(std::string_view rest) : rest_(rest) {}
  std::string_view take(std::uint64_t bytes);

  std::string_view rest_;
  bool short_ = false;
  Covered covered_{};
};

}  // namespace sessiond::transcripts
