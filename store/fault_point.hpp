// Named points between two steps of an operation that must survive a kill there. A test kills or stops the process at
// each of them (tests/crash/points.py). Built with SESSIOND_FAULT_POINTS (CMake; on in debug, asan and tsan), the
// process obeys an environment variable:
//   SESSIOND_FAULT=<name>[:<nth time, from 1>]=kill|stop[,…]      sends itself SIGKILL or SIGSTOP
// Built without, the points cost nothing and their names are not in the binary.
//
// A name that is not in the list below does not compile. A name that no test reaches fails tests/crash/points.py.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace sessiond::store {

inline constexpr auto fault_points = std::to_array<std::string_view>({
    // A batch: store/journal/writer.cpp, log.cpp, catalog.cpp
    "journal.written",             // not yet fdatasynced
    "journal.synced",              // durable, its outcome not yet told
    "journal.segment_created",     // its name is not yet durable
    "journal.segment_begun",       // durable, the one before it not yet sealed
    "journal.segment_sealed",      // with its index
    "journal.abandoned",           // a failed batch was cut off, nothing overrides it yet
    "journal.overridden",          // a new segment overrides it, its outcome not yet told
    "journal.overridden_removed",  // segments that are wholly overridden are removed
    "journal.segment_removed",     // by retention; its index is still there
    // Opening a journal that is torn or damaged: store/journal/repair.cpp, recovery.cpp
    "torn.kept",  // copied aside, not yet cut off
    "torn.cut",
    "repair.epoch",  // the new epoch is saved, the damage is still there
    "repair.kept",   // copied aside
    "repair.split",  // a run of good batches behind the damage has a segment of its own
    "repair.cut",
    // A file that is replaced (CHECKPOINT, EPOCH, tokens.json, …): store/files.cpp
    "replace.temp_synced",
    "replace.renamed",  // the directory is not yet fsynced
    // The lock: store/lock/lock_file.cpp
    "lock.payload_written",  // under a name of its own
    "lock.linked",           // the lock file exists, under its other name too
    "lock.moved_aside",      // a stale lock, not yet examined again
    // sessions.json: store/sessions/write.cpp
    "checkpoint.noted", "checkpoint.temp_written", "checkpoint.temp_synced", "checkpoint.temp_noted",
    "checkpoint.locked",
    "checkpoint.unchanged",  // the file was found to be the one that we read
    "checkpoint.exchanged",
    "checkpoint.old_kept",  // the old file is kept: as the previous generation, as .corrupt, or as foreign
    "checkpoint.linked",    // the new file has its second name
    "checkpoint.released", "checkpoint.dirs_synced",
    // Loading a store: store/sessions/load.cpp, daemon/ledger/store_loading.cpp
    "adopt.copied",  // the first generation of a foreign store
    "adopt.linked", "adopt.noted",
    "settle.removed",    // the temp file of a killed checkpoint
    "settle.kept",       // the file that its exchange brought out is in its place
    "rebuild.replayed",  // a damaged store is rebuilt in memory: an earlier generation plus the journal
    // Files from the journal: transcripts/transcript_writer.cpp, transcripts/unsynced_files.cpp,
    // transcripts/archive.cpp, daemon/ledger/projection.cpp
    "transcript.created", "transcript.written", "transcript.synced",
    "log.purged",          // the log of a purged session is removed, maybe not durably
    "archive.entry_kept",  // of the session that ends; its transcripts have their old names
    "archive.closed",      // its lines are in the file, which has its old name
    "archive.renamed", "archive.synced",
    "archive.recorded",  // all files of the event have their new names; a purge destroys them next
    "archive.purged",
    "archive.unlinked",  // by maintenance; others of the same event are still there
    "restore.renamed",   // an archive is the transcript again
    "staged.written",    // a transcript is written under the name that it has before its commit
    "staged.synced",     // it is durable, the commit is not decided
    "staged.renamed",    // the commit is durable, and the file has the transcript's name
    // An old transcript that is written as version 3: transcripts/migrate.cpp
    "migrate.kept",     // the old file has its second name, and still its first
    "migrate.renamed",  // the new file has its name, not yet durably
    // Blobs: store/blobs/blob_store.cpp, daemon/maintenance/blobs.cpp
    "blob.stored",   // with its folder; the commit that names it is not decided
    "blob.touched",  // it was there; the same
    "blob.unnamed",  // found by a sweep, still there
    "blob.removed",
    // A lock that is lent: daemon/ledger/lent_locks.cpp
    "lend.locked",    // its client does not know it yet
    "lend.released",  // what its client wrote is not merged yet
    // CHECKPOINT: daemon/ledger/checkpointer.cpp
    "marks.files_synced", "marks.answers_synced",
    "marks.written",  // retention has not yet run
    "marks.previous_renewed",
    // The log of a book: daemon/ledger/book_log.cpp
    "book.appended",   // records are in the file, without their ending
    "book.ended",      // with it, maybe not durably
    "book.compacted",  // the new log is written, and does not have its name
    "book.renamed",    // the new log has its name; the file of an earlier version is still there
    "runs.written",    // with sessions.json, which is written before
    "outbox.written", "last.written", "early.written", "policies.written",
    // Idempotency answers: store/answers/live.cpp, sealed.cpp
    "answers.written", "answers.synced", "answers.sealed",
    "answers.removed",  // by age or size; the index is still there
    // The index of the search: daemon/search/index.cpp
    "search.creating",  // its tables are made, not yet committed
    "search.written",   // rows and position, not yet committed
    "search.committed",
    // Start-up: daemon/ledger/recovery.cpp
    "recovery.replayed",  // files are made, not yet synced
    "recovery.merged",    // changes made while the daemon was down are committed
});

// A name of the list above; any other does not compile.
struct FaultPoint {
  std::size_t index;
  consteval FaultPoint(const char* name)
      : index(
            static_cast<std::size_t>(std::ranges::find(fault_points, std::string_view(name)) - fault_points.begin())) {
    if (index == fault_points.size()) throw "no such point";
  }
};

#ifdef SESSIOND_FAULT_POINTS
void fault_point(FaultPoint point);
#else
inline void fault_point(FaultPoint) {}
#endif

}  // namespace sessiond::store
