// Makes sure that an append is decided on where its transcript really ends. `seq`, `parentId` and `expectedSeq` follow
// from that, and a foreign program may have appended a moment ago.
// Shared mode: the transcript's lock is taken before the decision counts, and released when the lines are in the file,
// so no program that takes the lock comes between. Appends to one transcript share a hold; others do not wait.
// Own mode, and programs that take no lock: the file's size is looked at when the decision is made. What is appended
// after that and before our line is in the file takes its place: transcript.renumbered tells.
// Thread: the loop.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "daemon/ledger/follower.hpp"

namespace sessiond::ledger {

// Orders this daemon's requests that want the lock of one transcript.
struct TranscriptTurn;

// Lives from before the lock is taken until the last append under it is in the file; then the lock is released.
struct TranscriptHold {
  TranscriptHold(LedgerEnv& around, TranscriptFlusher& writes, std::shared_ptr<TranscriptTurn> at,
                 std::string path_below, std::string name);
  TranscriptHold(const TranscriptHold&) = delete;
  TranscriptHold& operator=(const TranscriptHold&) = delete;
  ~TranscriptHold();

  LedgerEnv& env;
  TranscriptFlusher& flusher;
  std::shared_ptr<TranscriptTurn> turn;
  std::string path;        // below the state directory
  std::string file;        // in the agent's folder
  std::int64_t since = 0;  // steady ms; 0: the lock is not held
};

class TranscriptLocks {
 public:
  TranscriptLocks(LedgerEnv& env, Commits& commits, Agents& agents, TranscriptFlusher& flusher, Follower& follower)
      : env_(env), commits_(commits), agents_(agents), flusher_(flusher), follower_(follower) {}

  // Says whether the transcript ends where the state says. One lstat, on the loop.
  bool ends_as_known(const decide::AgentState& state, const std::string& file) const;
  // Shared mode: the hold that other requests have now, if one may still join it; else null.
  std::shared_ptr<TranscriptHold> join(const std::string& agent, const std::string& file);
  // Takes the lock, and publishes what foreign programs added to the file. lock_timeout when it cannot be had in time.
  asio::awaitable<Result<std::shared_ptr<TranscriptHold>>> take(std::string agent, std::string file,
                                                                std::int64_t patience_ms = transcript_lock_timeout_ms);
  // The lock is free when this returns, unless others share the hold.
  asio::awaitable<void> release(std::shared_ptr<TranscriptHold> hold);
  bool any_held() const;  // or being taken

 private:
  asio::awaitable<Result<void>> take_lock(std::shared_ptr<TranscriptHold> hold, std::string agent, std::string file,
                                          std::int64_t deadline);

  LedgerEnv& env_;
  Commits& commits_;
  Agents& agents_;
  TranscriptFlusher& flusher_;
  Follower& follower_;
  std::map<std::string, std::shared_ptr<TranscriptTurn>> turns_{};  // by path; bounded
};

}  // namespace sessiond::ledger
