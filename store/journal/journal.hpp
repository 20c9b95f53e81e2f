// The journal: the one ordered log (FORMATS §1). One line is one batch, one batch is one write and one fdatasync, made
// by the journal's own thread from every commit that waits; while it writes, the next batch gathers. Seam
// (ARCHITECTURE): append, read, tail; nothing above may know that it is a file.
//   <CRC-32 of what follows the space, 8 hex> {"seq":<first>,"events":[…],"answers":[…],"places":[…]}\n
// Files: <first seq, 20 digits>.jsonl; one that overrides an older one of the same first seq is <first seq>-1.jsonl,
// -2, …, in order. Everything in a segment at or after the first seq of a later one is void. EPOCH holds
// {"epoch":"<8 hex>","holes":[[from,to],…]}; seqs [from, to) were lost to damage. A torn last line goes to
// <segment>.torn.<time>, damage to <segment>.damaged.<time>.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "store/journal/line_position.hpp"
#include "store/problem.hpp"

namespace sessiond {

using Bytes = std::shared_ptr<const std::string>;

// What one command commits: whole or not at all. Events have the seqs first_seq, first_seq+1, …
struct Commit {
  std::uint64_t first_seq = 0;
  std::vector<Bytes> events;                 // each a JSON object, one line
  std::vector<std::string> answers;          // idempotency answers, raw JSON; private
  std::vector<LinePosition> line_positions;  // where each transcript line goes; private
};

// What became of a batch. Called on the journal thread, in order.
struct BatchOutcome {
  enum class Kind : std::uint8_t {
    durable,          // fdatasync has returned
    not_stored,       // write or sync failed and a new segment, durable, overrides it; `problem` says why
    outcome_unknown,  // it failed and nothing could be made durable: it may or may not be there after a restart
  };
  Kind kind = Kind::durable;
  std::uint64_t first = 0;  // seqs [first, last]
  std::uint64_t last = 0;
  std::vector<Commit> commits;  // given back, for the projections
  Problem problem{};
  std::uint64_t generation = 0;  // how many resume()s after failures came before these commits were appended
  std::uint64_t bytes = 0;       // of the line
  std::uint64_t sync_ns = 0;     // what write + fdatasync took
};

struct JournalFileOps;  // journal_file_ops.hpp

// Sealed segments are read through once after each start, behind everything else: damage is found before somebody needs
// the place, and missing indexes are made.
struct JournalCheck {
  std::uint64_t segments = 0;  // read so far
  std::uint64_t of_segments = 0;
  std::uint64_t bytes = 0;
  std::uint64_t of_bytes = 0;
  std::uint64_t indexes_made = 0;
  std::string damage{};  // found in the last one, a sentence; empty: none
  bool done() const { return segments == of_segments; }
};

struct JournalOptions {
  std::filesystem::path dir;  // <stateDir>/journal
  std::uint64_t segment_bytes = 64ULL << 20;
  std::uint64_t max_bytes = 1ULL << 30;
  std::int64_t torn_kept_ms = 168LL * 3600 * 1000;  // a torn batch that was cut off
  bool repair = false;                              // read all of it, quarantine damage, new epoch
  // Recovery reads from this seq on. Damage that ends before it is served around and told (report, damage()); any other
  // is refused without `repair`. 1: all is needed.
  std::uint64_t needed_from = 1;
  std::uint64_t first_seq = 1;   // of a journal that is created: above every rev that the stores hold
  std::uint64_t least_head = 0;  // what files were made of (CHECKPOINT): one that ends before it has lost its end
  std::shared_ptr<const JournalFileOps> file_ops{};     // tests: failing disks; null is the system's
  std::function<void(const JournalCheck&)> on_check{};  // after each segment that the check has read; on its thread
};

// What opening found; told in the log, by doctor and /readyz.
struct JournalReport {
  bool created = false;
  std::vector<std::string> repairs{};  // one sentence each: what, which segment, offset, where it was put
  std::vector<std::string> damage{};   // the same of what is still there: nothing that recovery needs
};

// How far each_event() came.
struct EventsRead {
  std::uint64_t next = 0;  // go on from here
  bool lost = false;       // seqs [from, next) are damaged or missing; nothing was given
};

// A batch as read back.
struct StoredBatch {
  std::uint64_t first = 0;
  std::vector<Bytes> events;
  std::vector<std::string> answers;
  std::vector<LinePosition> line_positions;
};
struct JournalPage {
  std::vector<StoredBatch> batches;  // whole batches, the first one holds `from` (its earlier events are dropped)
  std::uint64_t next = 0;            // read from here to go on; > head when all was read
};

class Journal {
 public:
  using OnBatch = std::function<void(BatchOutcome)>;
  // Opens or creates; starts the thread. Damage before the last line without `repair` is a `degraded` problem naming
  // segment and offset.
  static Result<std::unique_ptr<Journal>> open(JournalOptions options, OnBatch on_batch);
  ~Journal();  // writes what waits, stops, joins
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  const JournalReport& report() const;
  const std::string& epoch() const;                    // 8 hex digits
  std::uint64_t head() const;                          // last durable seq; 0 when empty. Any thread.
  std::uint64_t oldest() const;                        // first seq kept. Any thread.
  std::uint64_t bytes_after(std::uint64_t seq) const;  // about; any thread
  std::vector<std::string> damage() const;             // known by now, a sentence a segment. Any thread.
  JournalCheck check() const;                          // how far it is. Any thread.

  // Queues a commit; first_seq must go on where the last one ended. After a batch that was not stored every commit that
  // is queued is given back as not_stored until resume() is called. Any thread, never blocks on the disk.
  void append(Commit commit);
  // After not_stored / outcome_unknown, when the caller has gone back to durable state: appends go on at head()+1. For
  // outcome_unknown it probes the disk first and answers whether it can be written again.
  Result<void> resume();

  // Durable batches from the one that holds `from`, about max_bytes of them (at least one). bad_cursor when from <
  // oldest(); degraded, naming the place, when the event `from` is damaged or missing, unless an earlier repair has
  // accepted its loss: then the next one that is there comes. Any thread; blocks.
  Result<JournalPage> read(std::uint64_t from, std::size_t max_bytes) const;

  // The events alone, without a copy: take(seq, json) for each from seq `from` on, of about max_bytes of batches (at
  // least one); ends before damage, and says so when that is where it begins. bad_cursor as read().
  Result<EventsRead> each_event(std::uint64_t from, std::size_t max_bytes,
                                const std::function<void(std::uint64_t seq, std::string_view json)>& take) const;

  // For backups: every segment's file in order with how many of its bytes are durable now; none is removed before this
  // returns. The last durable seq in them. Any thread; blocks.
  Result<std::uint64_t> each_segment(
      const std::function<Result<void>(const std::filesystem::path&, std::uint64_t bytes)>& call) const;

  // Everything up to `seq` is in the files, on disk: retention may take it, and takes what is old, nothing after `old`.
  void release(std::uint64_t seq, std::uint64_t old = 0);
  // Waits until everything appended so far has had its outcome.
  void drain();

 private:
  struct Impl;
  explicit Journal(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sessiond
