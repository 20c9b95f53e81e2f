// Tar archives as backups need them: files and directories, written as POSIX ustar with a pax header where a name is
// longer than 100 bytes or a size or time does not fit (IEEE Std 1003.1, pax); read also as GNU tar writes them ('L'
// names, base-256 numbers). The reader is given bytes as they come and holds no more than a header of them; what it is
// given may be hostile: a name that leaves the place it is unpacked to, links, devices and sparse files are refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "store/problem.hpp"

namespace sessiond {

inline constexpr std::size_t tar_block_size = 512;

struct TarMember {
  enum class Kind : std::uint8_t { file, directory };
  Kind kind = Kind::file;
  std::string name{};  // relative, '/' between its parts, none at the end
  std::uint64_t size = 0;
  std::int64_t mtime = 0;  // s since the epoch
};

// What stands before a member's bytes; modes are 0600 and 0700, the owner is this process's.
void append_tar_header(std::string& out, const TarMember& member);
void append_tar_padding(std::string& out, std::uint64_t size);  // and behind them
void append_tar_end(std::string& out);

class TarReader {
 public:
  struct Sink {
    std::function<Result<void>(const TarMember&)> member;
    std::function<Result<void>(std::string_view)> data;  // of the last member, in order
  };
  explicit TarReader(Sink sink) : sink_(std::move(sink)) {}

  // validation_failed: it is no archive, or one that is refused; what the sink says otherwise.
  Result<void> feed(std::string_view bytes);
  // Nothing more will come: a problem unless the archive's end was there.
  Result<void> finish() const;

 private:
  Result<void> header(std::string_view block);
  Result<void> start(TarMember member);
  Result<void> extension();  // a whole pax header or long name
  Result<void> pax(std::string_view records);

  Sink sink_;
  std::string block_{};        // of a header, not yet whole
  std::string extension_{};    // of a pax header or long name, not yet whole
  char extending_ = 0;         // its type; 0: bytes are a member's
  std::uint64_t left_ = 0;     // bytes still to come of what the last header announced
  std::uint64_t padding_ = 0;  // and behind them
  std::string long_name_{};    // what an extension says of the next member
  std::string long_size_{};
  std::string long_mtime_{};
  bool begun_ = false;
  bool ended_ = false;
};

}  // namespace sessiond
