// Brings sessions.json up to date, as often as its duty cycle allows, and CHECKPOINT, which says how far the files have
// come: recovery replays the journal from there, and retention may take what is older. Writers wait here when the
// journal gets too far ahead of the files. Thread: the loop.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "daemon/ledger/agents.hpp"
#include "daemon/ledger/backlog.hpp"
#include "daemon/ledger/last_session_files.hpp"
#include "daemon/ledger/snapshot.hpp"

namespace sessiond::ledger {

class Checkpointer {
 public:
  struct Hooks {
    std::function<void(Agent&)> on_written{};  // its folder may be new
    std::function<void()> on_round{};          // each round of run(), about once a second or when something is due
  };
  Checkpointer(LedgerEnv& env, Commits& commits, Notices& notices, Agents& agents, TranscriptFlusher& flusher,
               const journal::FileJournal& journal_files);
  void set_hooks(Hooks hooks) { hooks_ = std::move(hooks); }
  // Continues from the CHECKPOINT that was read: all files hold everything up to `seq`.
  void start_from(std::uint64_t seq) {
    checkpointed_ = synced_ = seq;
    backlog_.start_from(seq);
  }

  asio::awaitable<void> run();  // until the daemon stops
  void wake() {
    timer_.cancel();
    last_sessions_.wake();
  }
  LastSessionFiles& last_sessions() { return last_sessions_; }
  Backlog& backlog() { return backlog_; }
  // Returns once sessions.json holds everything up to `seq`; lock_timeout when its lock cannot be had within
  // `patience_ms`, by default store.lock.timeoutMs and as long as the lock is lent.
  asio::awaitable<Result<void>> write_until(std::string id, std::uint64_t seq,
                                            std::optional<std::int64_t> patience_ms = {});
  // Keeps foreign programs that take the lock from changing sessions.json until let_go(): merges what they wrote, and
  // lets checkpoints go on under the lock. lock_timeout as above.
  asio::awaitable<Result<void>> hold(std::string id);
  asio::awaitable<void> let_go(std::string id);
  asio::awaitable<Result<void>> write_all();
  // Takes all that is durable now, as files that stay as they are (snapshot.hpp). Destroy it on a disk thread.
  asio::awaitable<Result<std::shared_ptr<StateSnapshot>>> take_snapshot();

  int snapshots_under_way() const { return snapshots_; }
  std::uint64_t archived_from(const std::string& agent) const;
  std::uint64_t checkpoints() const { return checkpoints_; }  // since the start
  const std::string& trouble() const { return trouble_; }     // why CHECKPOINT could not advance the last time

 private:
  asio::awaitable<Result<void>> take_parts(std::shared_ptr<StateSnapshot> snapshot);
  asio::awaitable<Result<void>> checkpoint(std::string id);
  void on_checkpoint_failed(Agent& agent, const Problem& why);
  asio::awaitable<Result<void>> sync_files();
  asio::awaitable<Result<void>> advance();
  asio::awaitable<void> renew_resting();

  LedgerEnv& env_;
  Commits& commits_;
  Notices& notices_;
  Agents& agents_;
  TranscriptFlusher& flusher_;
  const journal::FileJournal& journal_files_;  // for snapshots
  Hooks hooks_{};
  asio::strand<asio::thread_pool::executor_type> strand_;  // writes CHECKPOINT and the answers
  asio::steady_timer timer_;
  std::uint64_t checkpointed_ = 0;  // CHECKPOINT's smallest seq
  std::uint64_t synced_ = 0;        // the seq of the last CHECKPOINT
  std::int64_t next_sync_ = 0;      // steady ms
  std::string trouble_{};
  LastSessionFiles last_sessions_;
  Backlog backlog_;
  int snapshots_ = 0;  // being taken: retention waits
  runtime::OneByOne snapshot_turn_{};
  std::uint64_t checkpoints_ = 0;
};

}  // namespace sessiond::ledger
