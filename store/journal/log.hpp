// The write side of the journal without its thread: batches go to the live segment, segments roll, a failed one is
// overridden. One caller at a time; what is durable is told to the catalog.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "store/journal/catalog.hpp"
#include "store/journal/journal.hpp"
#include "store/journal/recovery.hpp"
#include "store/journal/writer.hpp"

namespace sessiond::journal {

class Log {
 public:
  static Result<std::unique_ptr<Log>> open(const JournalOptions& options, const Recovered& recovered, Catalog& catalog);
  // The first segment of a journal that has none.
  static Result<Segment> create_first(const JournalOptions& options);

  // kind, problem, bytes and sync_ns of an outcome. Consecutive commits, the first at head+1.
  BatchOutcome write(std::span<const Commit> commits);
  // Makes a segment that overrides whatever stands after the head. Then batches can be written again.
  Result<void> override_from_head();
  bool writable() const { return writer_.has_value(); }

 private:
  Log(const JournalOptions& options, Catalog& catalog, SegmentWriter::Ops ops);
  Result<void> write_line(std::uint64_t first, std::uint64_t next);
  Result<void> begin_segment(bool overrides);
  Result<std::string> override_start() const;
  void give_up(const Problem& cause, BatchOutcome& outcome);

  std::filesystem::path dir_;
  std::uint64_t segment_bytes_;
  SegmentWriter::Ops ops_;
  Catalog& catalog_;
  std::optional<SegmentWriter> writer_{};  // none after a failure that could not be overridden
  std::string line_{};
};

}  // namespace sessiond::journal
