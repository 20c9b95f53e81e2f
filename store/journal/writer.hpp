// Appends lines to the live segment, each with one write and one fdatasync.
//
// After a failed write or fdatasync the segment is not written again: the kernel may have dropped pages that it could
// not write, and a later fdatasync would not tell. The exception is a full disk, when what was written could be cut off
// again, durably.
//
// Reserving space beyond the end (fallocate with KEEP_SIZE) was measured on ext4 and makes no fdatasync cheaper, since
// the size changes with every line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>

#include "store/journal/file_ops.hpp"
#include "store/journal/segment.hpp"

namespace sessiond::journal {

class SegmentWriter {
 public:
  using Ops = std::shared_ptr<const JournalFileOps>;
  // Creates a segment with `first_line` ("": empty). The file and its name are durable when this returns. Removes the
  // file again when it fails, if it can.
  static Result<SegmentWriter> create(const std::filesystem::path& path, std::string_view first_line, const Ops& ops);
  // Opens a segment that recovery has read completely. `end` is its size.
  static Result<SegmentWriter> reopen(const std::filesystem::path& path, std::uint64_t end, Ops ops);

  Result<void> append(std::string_view line);  // durable when it returns
  bool sound() const { return sound_; }        // whether it can be written again
  void abandon();                              // after a failure: tries to cut off what is not durable
  std::uint64_t end() const { return end_; }   // durable bytes

 private:
  Result<void> write(std::string_view line);
  bool cut_back();
  SegmentWriter(store::Fd fd, std::filesystem::path path, std::uint64_t end, Ops ops)
      : fd_(std::move(fd)), path_(std::move(path)), end_(end), ops_(std::move(ops)) {}

  store::Fd fd_;
  std::filesystem::path path_;
  std::uint64_t end_;
  bool sound_ = true;
  Ops ops_;
};

}  // namespace sessiond::journal
