// The live segment: lines go to its end, each with one write and one fdatasync. After a failure it is not written
// again, unless the disk was full and what got into the file could be cut off again, durably. Measured on ext4:
// reserving space beyond the end (fallocate with KEEP_SIZE) made no fdatasync cheaper, as the size changes with every
// line; only files longer than their content would, and a segment's size ends at its last line.
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
  // A new, empty segment; durable with its name, and with `first_line` when there is one. Leaves no file when it fails,
  // if it can.
  static Result<SegmentWriter> create(const std::filesystem::path& path, std::string_view first_line, const Ops& ops);
  // One that recovery has read through to `end`, which is its size.
  static Result<SegmentWriter> reopen(const std::filesystem::path& path, std::uint64_t end, Ops ops);

  Result<void> append(std::string_view line);  // durable when it returns
  bool sound() const { return sound_; }        // it can be written again
  void abandon();  // after a failure: cuts off what is not durable, as far as that can be done
  std::uint64_t end() const { return end_; }  // durable bytes

 private:
  Result<void> write(std::string_view line);
  bool cut_back();
  SegmentWriter(Fd fd, std::filesystem::path path, std::uint64_t end, Ops ops)
      : fd_(std::move(fd)), path_(std::move(path)), end_(end), ops_(std::move(ops)) {}

  Fd fd_;
  std::filesystem::path path_;
  std::uint64_t end_;
  bool sound_ = true;
  Ops ops_;
};

}  // namespace sessiond::journal
