// The journal in files: <stateDir>/journal/<first seq, 20 digits>.jsonl, one line a batch. README.md beside this file
// describes the format.
//
// A thread of its own makes one batch of all commits that wait, writes it with one write and one fdatasync, and tells
// the outcome; meanwhile the next batch gathers. When a segment is full the next one begins. When a write or fdatasync
// fails, a new segment begins that overrides whatever the failed batch left in the old one.
//
// A second thread reads every sealed segment once after each start, at low priority. It finds damage before somebody
// needs the events, and makes indexes that are missing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "store/journal/journal.hpp"
#include "store/problem.hpp"

namespace sessiond::journal {

struct JournalFileOps;  // file_ops.hpp

// How far the check of the sealed segments is.
struct JournalCheck {
  std::uint64_t segments = 0;  // read so far
  std::uint64_t of_segments = 0;
  std::uint64_t bytes = 0;
  std::uint64_t of_bytes = 0;
  std::uint64_t indexes_made = 0;
  std::string damage{};  // what was found in the last segment, one sentence; empty: nothing
  bool done() const { return segments == of_segments; }
};

struct JournalOptions {
  std::filesystem::path dir;  // <stateDir>/journal
  std::uint64_t segment_bytes = 64ULL << 20;
  std::uint64_t max_bytes = 1ULL << 30;
  std::int64_t torn_kept_ms = 168LL * 3600 * 1000;  // how long a torn batch that was cut off is kept
  bool repair = false;                              // read everything, put damage aside, begin a new epoch
  // Recovery reads from this seq on. Damage before it does not keep the journal from opening, it is reported; any other
  // damage does, without `repair`. 1: everything is needed.
  std::uint64_t needed_from = 1;
  std::uint64_t first_seq = 1;   // of a journal that is created; greater than every rev in the stores
  std::uint64_t least_head = 0;  // the files contain this seq (CHECKPOINT): a journal that ends before has lost its end
  std::shared_ptr<const JournalFileOps> file_ops{};     // for tests with failing disks; null: the system's calls
  std::function<void(const JournalCheck&)> on_check{};  // called on the checking thread, after each segment
};

// The findings of an opening. Each is one sentence that names the segment, the offset, and where the bytes were put.
struct JournalReport {
  bool created = false;
  std::vector<std::string> repairs{};
  std::vector<std::string> damage{};  // still there; recovery does not need it
};

class FileJournal final : public Journal {
 public:
  // Opens or creates the journal and starts its threads. degraded: damage that recovery cannot do without; names
  // segment and offset. Blocks.
  static Result<std::unique_ptr<FileJournal>> open(JournalOptions options);
  ~FileJournal() override;

  void append(std::vector<Commit> commits) override;
  Result<void> resume() override;
  void tail(OnBatch on_batch) override;
  Result<JournalPage> read(std::uint64_t from, std::size_t max_bytes) const override;
  Result<EventsRead> each_event(std::uint64_t from, std::size_t max_bytes, const OnEvent& take) const override;
  std::uint64_t head() const override;
  std::uint64_t oldest() const override;
  const std::string& epoch() const override;
  std::uint64_t bytes_after(std::uint64_t seq) const override;
  void release(std::uint64_t seq, std::uint64_t old) override;  // removes whole segments, never the newest

  const JournalReport& report() const;
  std::vector<std::string> damage() const;  // all that is known by now, one sentence each
  JournalCheck check() const;
  // Calls with each segment in order and the number of its bytes that are durable now; a backup links them. No segment
  // is removed before this returns. Returns the last durable seq in them. Blocks.
  using OnSegment = std::function<Result<void>(const std::filesystem::path&, std::uint64_t bytes)>;
  Result<std::uint64_t> each_segment(const OnSegment& call) const;

 private:
  struct Impl;
  explicit FileJournal(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sessiond::journal
