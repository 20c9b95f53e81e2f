// Tar archives as backups need them: files and directories. The writer makes POSIX ustar, with a pax header when a name
// is longer than 100 bytes or a size or time does not fit (IEEE Std 1003.1, pax). The reader also understands what GNU
// tar writes ('L' names, base-256 numbers). The reader is fed with bytes as they come and keeps at most a header of
// them. It does not trust the archive: it refuses names that lead out of the target folder, links, devices and sparse
// files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <string_view>

#include "store/problem.hpp"

namespace sessiond::backup {

inline constexpr std::size_t tar_block_size = 512;

// The sum of all bytes: the checksum of a header.
inline std::uint64_t sum_of(std::string_view bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0},
                         [](std::uint64_t all, char c) { return all + static_cast<unsigned char>(c); });
}

struct TarMember {
  enum class Kind : std::uint8_t { file, directory };
  Kind kind = Kind::file;
  std::string name{};  // relative, '/' between its parts, none at the end
  std::uint64_t size = 0;
  std::int64_t mtime = 0;  // s since the epoch
};

// The header of a member. The mode is 0600 or, of a directory, 0700; the owner is the user of this process.
void append_tar_header(std::string& out, const TarMember& member);
void append_tar_padding(std::string& out, std::uint64_t size);  // follows the member's bytes
void append_tar_end(std::string& out);

class TarReader {
 public:
  struct Sink {
    std::function<Result<void>(const TarMember&)> member;
    std::function<Result<void>(std::string_view)> data;  // of the member that came last, in order
  };
  explicit TarReader(Sink sink) : sink_(std::move(sink)) {}

  // Errors: validation_failed when it is no archive or is refused; those of the sink.
  Result<void> feed(std::string_view bytes);
  // Call it after the last bytes. Errors: validation_failed when the archive's end is missing.
  Result<void> finish() const;

 private:
  Result<void> header(std::string_view block);
  Result<void> start(TarMember member);
  Result<void> extension();  // a pax header or long name is complete
  Result<void> pax(std::string_view records);

  Sink sink_;
  std::string block_{};        // the part of a header that has come
  std::string extension_{};    // the part of a pax header or long name that has come
  char extending_ = 0;         // type of that extension; 0 while a member's bytes come
  std::uint64_t left_ = 0;     // bytes that the last header announced and that are still to come
  std::uint64_t padding_ = 0;  // padding after them
  std::string long_name_{};    // what extensions say about the next member
  std::string long_size_{};
  std::string long_mtime_{};
  bool begun_ = false;
  bool ended_ = false;
};

}  // namespace sessiond::backup
