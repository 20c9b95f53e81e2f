// The parts of a ledger, made in the order in which they need each other. Each names its thread.
#pragma once

#include <atomic>

#include "daemon/ledger/checkpointer.hpp"
#include "daemon/ledger/follower.hpp"
#include "daemon/ledger/lent_locks.hpp"
#include "daemon/ledger/memory_sessions.hpp"
#include "daemon/ledger/sdk_sessions.hpp"
#include "daemon/ledger/transcript_locks.hpp"

namespace sessiond::ledger {

struct LedgerParts {
  LedgerEnv env;
  const journal::FileJournal& journal_files;  // the journal of `commits`, for status, backups and the start
  Commits commits;
  MemorySessions memory{env, commits};
  Notices notices{env, commits};
  // True until every agent was looked at once. Until then, what is found on disk is what the daemon starts from. An
  // agent that appears later was made by a foreign program, and all of it is published.
  std::atomic<bool> adopting{true};
  TranscriptFlusher flusher{env, notices, adopting};
  TranscriptReaders readers{env, flusher};
  Agents agents{env, commits, notices, flusher, readers, adopting};
  SdkSessions sdk_sessions{env, agents};
  Follower follower{env, commits, notices, agents, flusher, readers, adopting};
  TranscriptLocks locks{env, commits, agents, flusher, follower};
  Checkpointer checkpointer{env, commits, notices, agents, flusher, journal_files};
  LentLocks lent{env, commits, notices, agents, checkpointer};
};

}  // namespace sessiond::ledger
