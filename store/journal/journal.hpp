// The journal: the one ordered log that everything else is made from. The ledger and the streams know only this class;
// they do not know where the log is kept. FileJournal (file_journal.hpp) keeps it in files.
// tests/unit/store/journal/journal_conformance.hpp tests the promises below on any implementation.
//
// An event has a seq: 1, 2, 3, … without a hole. A commit is one or more consecutive events, or none and only answers.
// Consecutive commits that wait at the same time become one batch. A batch is stored whole or not at all.
//
//   append   Queues commits. Never blocks and never fails: their outcome comes later, through tail().
//   tail     Tells what became of each batch, in the order of the appends. `durable` is told only after the batch has
//            reached stable storage: it survives the process and the machine from then on. Nothing is told twice.
//   read     Gives durable batches, at any time, from any seq that is kept. Never more than head(), never a part that
//            is not durable yet. An event that is damaged is told, not passed over.
//   head     Is the last durable seq. It rises before the outcome is told, so who is told can read.
//   release  Allows old events to be removed. Nothing after the released seq is ever removed.
//
// A batch that cannot be stored is given back with its commits, and so is every commit behind it, appended before or
// after, until resume(). Then appends continue at head() + 1: the seqs of what was given back are assigned again.
//
// Threads: every call may come from any thread unless it says otherwise.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "store/journal/line_position.hpp"
#include "store/problem.hpp"

namespace sessiond::journal {

using Bytes = std::shared_ptr<const std::string>;

// The events of one command, and all that is stored with them. Events have the seqs first_seq, first_seq + 1, …;
// without events, first_seq is the seq of the next event.
struct Commit {
  std::uint64_t first_seq = 0;
  std::vector<Bytes> events;                 // each a JSON object
  std::vector<std::string> answers;          // idempotency answers, JSON; clients never see them
  std::vector<LinePosition> line_positions;  // where transcript lines go; clients never see them
};

// Tells whether a batch was stored.
struct BatchOutcome {
  enum class Kind : std::uint8_t {
    durable,          // on stable storage
    not_stored,       // failed, and it will never appear; `problem` says why
    outcome_unknown,  // failed, and it may appear after a restart; once resume() has succeeded, it never will
  };
  Kind kind = Kind::durable;
  std::uint64_t first = 0;  // seqs [first, last]; last is first - 1 for a batch without events
  std::uint64_t last = 0;
  std::vector<Commit> commits;  // as they were appended
  Problem problem{};
  std::uint64_t generation = 0;  // how many resume()s after a failure came before these commits were appended
  std::uint64_t bytes = 0;       // as stored
  std::uint64_t sync_ns = 0;     // how long it took to store it, in nanoseconds
};

// A batch as read back.
struct StoredBatch {
  std::uint64_t first = 0;
  std::vector<Bytes> events;
  std::vector<std::string> answers;
  std::vector<LinePosition> line_positions;
};
struct JournalPage {
  std::vector<StoredBatch> batches;
  std::uint64_t next = 0;  // the seq to continue from; greater than head() when all was read
};

// How far each_event() came.
struct EventsRead {
  std::uint64_t next = 0;  // the seq to continue from
  bool lost = false;       // the events [from, next) are damaged or missing, and none was given
};

class Journal {
 public:
  // Called on a thread of the journal, one batch at a time. It must not wait for another outcome.
  using OnBatch = std::function<void(BatchOutcome)>;
  using OnEvent = std::function<void(std::uint64_t seq, std::string_view json)>;

  Journal() = default;
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;
  virtual ~Journal() = default;  // stores what waits and tells its outcomes first

  // `first_seq` must be the seq that follows the last commit's; a commit that does not follow is not stored.
  virtual void append(std::vector<Commit> commits) = 0;
  // Allows appends again after a batch that was not durable. Call it when the caller has returned to the state at
  // head(). An error: the journal still cannot be written; call it again later. Blocks.
  virtual Result<void> resume() = 0;

  // Tells `on_batch` of every batch from now on. Call it once, before the first append.
  virtual void tail(OnBatch on_batch) = 0;

  // Reads about `max_bytes` of batches, at least one, beginning with the one that holds `from` (without its events
  // before `from`). bad_cursor: from < oldest(). degraded: the event `from` is damaged or missing; a loss that a repair
  // has accepted is passed over instead. Blocks.
  virtual Result<JournalPage> read(std::uint64_t from, std::size_t max_bytes) const = 0;
  // Reads events alone and without a copy: calls `take` with each from seq `from` on, about `max_bytes` of batches, at
  // least one. Ends before an event that is damaged or missing. Where that is `from` itself, says so and gives nothing,
  // losses that a repair has accepted included. bad_cursor as read(). Blocks.
  virtual Result<EventsRead> each_event(std::uint64_t from, std::size_t max_bytes, const OnEvent& take) const = 0;

  virtual std::uint64_t head() const = 0;    // the last durable seq; oldest() - 1 when there is no event
  virtual std::uint64_t oldest() const = 0;  // the first seq that is kept
  // Names this history: 8 hex digits. A journal that lost durable events continues under a new epoch, so that an event
  // id ("<epoch>-<seq>") never means two events.
  virtual const std::string& epoch() const = 0;
  virtual std::uint64_t bytes_after(std::uint64_t seq) const = 0;  // how much is stored after `seq`, about

  // Allows the removal of events up to `seq`. Removed are those up to `old`, and the oldest ones beyond the size that
  // the journal may have; fewer where the storage removes only larger pieces. Blocks.
  virtual void release(std::uint64_t seq, std::uint64_t old) = 0;
};

}  // namespace sessiond::journal
