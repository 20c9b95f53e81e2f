// Named points between two steps of what must survive being killed or stopped there. They do nothing, and their names
// are not in the binary, unless it is built with SESSIOND_FAULT_POINTS (CMake; on in debug, asan and tsan). Then the
// environment says where to end or to rest:
//   SESSIOND_FAULT=<name>[:<nth time, from 1>]=kill|stop[,…]      SIGKILL or SIGSTOP to the whole process
// A test reads the names from this list; one that is not in it does not compile, one that nothing reaches fails
// tests/crash/points.py.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace sessiond {

inline constexpr auto fault_points = std::to_array<std::string_view>({
    // A batch: store/journal/writer.cpp, journal_log.cpp, journal_catalog.cpp
    "journal.written",             // not yet fdatasynced
    "journal.synced",              // durable, nobody told
    "journal.segment_created",     // its name is not yet durable
    "journal.segment_begun",       // durable, the one before it not yet sealed
    "journal.segment_sealed",      // with its index
    "journal.abandoned",           // a failed batch was cut off, nothing overrides it yet
    "journal.overridden",          // a new segment overrides it, nobody told
    "journal.overridden_removed",  // and what was wholly overridden is gone
    "journal.segment_removed",     // by retention, its index not yet
    // Opening a journal that is torn or damaged: store/journal/repair.cpp, journal_recovery.cpp
    "torn.kept",  // put aside, not yet cut off
    "torn.cut",
    "repair.epoch",  // the new epoch stands, the damage too
    "repair.kept",   // put aside
    "repair.split",  // what is good behind it has a segment of its own
    "repair.cut",
    // A file that is replaced (CHECKPOINT, EPOCH, tokens.json, …): store/files.cpp
    "replace.temp_synced",
    "replace.renamed",  // the directory not yet fsynced
    // The lock: store/lock/lock_file.cpp
    "lock.payload_written",  // under a name of its own
    "lock.linked",           // it stands, its other name too
    "lock.moved_aside",      // a stale one, not yet judged again
    // sessions.json: store/sessions/write.cpp
    "checkpoint.noted", "checkpoint.temp_written", "checkpoint.temp_synced", "checkpoint.temp_noted",
    "checkpoint.locked",
    "checkpoint.unchanged",  // looked at: the file is the one that we read
    "checkpoint.exchanged",
    "checkpoint.old_kept",  // what came out is the previous generation, or .corrupt, or foreign
    "checkpoint.linked",    // the new one has its second name
    "checkpoint.released", "checkpoint.dirs_synced",
    // Loading a store: store/sessions/load.cpp, daemon/ledger/agents.cpp
    "adopt.copied",  // a foreign store's first generation
    "adopt.linked", "adopt.noted",
    "settle.removed",    // the temp file of a killed checkpoint
    "settle.kept",       // what its exchange brought out is where it belongs
    "rebuild.replayed",  // a damaged store: an earlier generation and the journal over it, in memory
    // Files from the journal: transcripts/transcript_writer.cpp, transcripts/unsynced_files.cpp,
    // transcripts/archive.cpp, daemon/ledger/projection.cpp
    "transcript.created", "transcript.written", "transcript.synced",
    "archive.closed",  // its lines are in the file, it has its old name
    "archive.renamed", "archive.synced",
    "archive.recorded",  // all files of the event have their new names, and a purge destroys them now
    "archive.purged",
    // CHECKPOINT: daemon/ledger/checkpointer.cpp
    "marks.files_synced", "marks.answers_synced",
    "marks.written",  // retention has not run
    "marks.previous_renewed",
    // Idempotency answers: store/answers/live.cpp, answers_sealed.cpp
    "answers.written", "answers.synced", "answers.sealed",
    "answers.removed",  // by age or size, the index not yet
    // Start-up: daemon/ledger/recovery.cpp
    "recovery.replayed",  // files are made, nothing of it is synced
    "recovery.merged",    // what others changed while we were down is committed
});

// A name of the list; any other is an error of the compiler.
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

}  // namespace sessiond
