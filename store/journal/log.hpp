// The writing half of FileJournal, without its thread. Appends batches to the live segment, begins the next segment
// when it is full, and overrides it when a write failed. Tells the catalog what is durable. One caller at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "store/journal/catalog.hpp"
#include "store/journal/file_journal.hpp"
#include "store/journal/recovery.hpp"
#include "store/journal/writer.hpp"

namespace sessiond::journal {

class Log {
 public:
  ~Log();  // gives the live segment its true length
  static Result<std::unique_ptr<Log>> open(const JournalOptions& options, const Recovered& recovered, Catalog& catalog);
  // Creates the first segment of a new journal.
  static Result<Segment> create_first(const JournalOptions& options);

  // Stores consecutive commits, the first at head + 1, as one batch. Fills kind, problem, bytes and sync_ns of the
  // outcome. Must be writable().
  BatchOutcome write(std::span<const Commit> commits);
  // Begins a segment that overrides everything after the head. Then batches can be written again.
  Result<void> override_from_head();
  bool writable() const { return writer_.has_value(); }
  // Makes the next batches cheaper: writes zeros that they overwrite. Call it when none waits.
  void write_zeros();

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
  std::optional<SegmentWriter> writer_{};  // nothing after a failure that could not be overridden
  std::string line_{};
};

}  // namespace sessiond::journal
