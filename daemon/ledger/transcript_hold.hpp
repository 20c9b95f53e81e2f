// Private to the ledger: one hold of a transcript's lock, shared by the appends that are decided and written under it.
#pragma once

#include <memory>
#include <string>

#include "daemon/ledger/agent.hpp"

namespace sessiond {

// Orders this daemon's requests that want the lock of one transcript.
struct Ledger::TranscriptTurn {
  std::weak_ptr<TranscriptHold> open{};  // may be joined
  bool taken = false;                    // somebody takes the lock, or has it
  std::int64_t foreign_at = 0;           // steady ms when another program's lines were found the last time
  std::int64_t not_before = 0;           // steady ms: until then other programs may take the lock
  Waiters freed{};
};

// Lives from before the lock is taken until the last append under it is in the file; then the lock is released, on the
// files' strand. The loop's thread.
struct Ledger::TranscriptHold {
  TranscriptHold(Ledger& of, std::shared_ptr<TranscriptTurn> at, std::string agent, std::string name);
  TranscriptHold(const TranscriptHold&) = delete;
  TranscriptHold& operator=(const TranscriptHold&) = delete;
  ~TranscriptHold();

  Ledger& ledger;
  std::shared_ptr<TranscriptTurn> turn;
  std::string path;        // below the state directory
  std::string file;        // in the agent's folder
  std::int64_t since = 0;  // steady ms; 0: the lock is not held
};

}  // namespace sessiond
