// Writes lines to the live segment, each with one write and one fdatasync.
//
// An fdatasync of a file that has grown also commits its new size and blocks to the file system's own journal, which
// takes longer than the line does. So zeros are written behind the last line while no batch waits, and the next lines
// overwrite them. Readers take zeros at the end of a file for its end. Nothing but time depends on zeros: where there
// are none, or too few, a line lets the file grow.
//
// After a failed write or fdatasync of a line the segment is not written again: the kernel may have dropped pages that
// it could not write, and a later fdatasync would not tell. The exception is a full disk, when what was written could
// be cut off again, durably. Zeros that could not be written hold no line: they are cut off, and the segment gets no
// more.
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
  // Opens a segment that recovery has read completely. Its lines end at `end`; zeros behind them are cut off.
  static Result<SegmentWriter> reopen(const std::filesystem::path& path, std::uint64_t end, Ops ops);

  Result<void> append(std::string_view line);  // durable when it returns
  bool sound() const { return sound_; }        // whether it can be written again
  void abandon();                              // after a failure: tries to cut off what is not durable
  std::uint64_t end() const { return end_; }   // durable bytes

  // Writes zeros behind the lines when few are left, up to `limit` in the file. Takes about as long as a batch.
  void write_zeros(std::uint64_t limit);
  void cut_zeros();  // gives the file its true length; if that fails, zeros stay

 private:
  Result<void> write(std::string_view line);
  bool cut_back();
  SegmentWriter(store::Fd fd, std::filesystem::path path, std::uint64_t end, Ops ops)
      : fd_(std::move(fd)), path_(std::move(path)), end_(end), zeros_end_(end), ops_(std::move(ops)) {}

  store::Fd fd_;
  std::filesystem::path path_;
  std::uint64_t end_;
  std::uint64_t appended_ = 0;  // bytes, by this writer
  std::uint64_t zeros_end_;     // bytes [end_, zeros_end_) of the file are zeros; not above end_: there are none
  bool zeros_fit_ = true;       // no zeros have failed yet
  bool sound_ = true;
  Ops ops_;
};

}  // namespace sessiond::journal
