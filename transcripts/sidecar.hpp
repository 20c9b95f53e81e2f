// What the indexes of a transcript have in common: which beginning of the file an index was made of, and the form of
// the sidecar that keeps it over a restart.
//
// A sidecar (or an index in memory, when the file has changed) is taken over when the inode is the same, the file is
// not shorter than what was covered, and the last 4 KiB of that have the same CRC-32; then only the rest is read. Not
// ctime equality: every append of ours moves it.
//
// Little endian: magic (8), inode, covered bytes, their tail's CRC (4), what the index holds, CRC-32 of all that (4);
// numbers of 8 bytes where nothing is said.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/problem.hpp"

namespace sessiond {

struct Covered {
  std::uint64_t bytes = 0;     // [0, bytes) were read; they are whole lines
  std::uint32_t tail_crc = 0;  // of the last 4 KiB of them

  // Does the file still begin with what was covered?
  Result<bool> fits(int fd, std::uint64_t size, std::string_view path) const;
  Result<void> extend(int fd, std::uint64_t end, std::string_view path);
};

class SidecarWriter {
 public:
  SidecarWriter(std::string_view magic, std::uint64_t inode, const Covered& covered);
  void number(std::uint64_t value, std::size_t bytes = 8);
  void text(std::string_view text);  // its length (4) first
  template <class Number>
  void numbers(const std::vector<Number>& values) {  // how many first
    number(values.size());
    out_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Number));
  }
  std::string finish() &&;

 private:
  std::string out_;
};

class SidecarReader {
 public:
  // Nothing when it is damaged, of another kind or of another inode.
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
  bool complete() const { return !short_ && rest_.empty(); }  // all was there, and nothing else

 private:
  explicit SidecarReader(std::string_view rest) : rest_(rest) {}
  std::string_view take(std::uint64_t bytes);

  std::string_view rest_;
  bool short_ = false;
  Covered covered_{};
};

}  // namespace sessiond
