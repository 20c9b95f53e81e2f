// How far the journal is ahead of the files. When it is too far, commits wait until the files have followed. They wait
// 10 s at most, because the cause may last. An agent that a foreign lock or a fault keeps back does not count,
// so that other agents' writers do not wait for it; its own events have a limit of their own.
// Thread: the loop.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/ledger/agent.hpp"
#include "daemon/ledger/commits.hpp"

namespace sessiond::ledger {

class Backlog {
 public:
  // `trouble`: why the files do not follow, for those that wait in vain. Must outlive this.
  Backlog(LedgerEnv& env, Commits& commits, const std::string& trouble)
      : env_(env), commits_(commits), trouble_(trouble) {}

  void start_from(std::uint64_t seq) { from_ = seq; }
  // Notes that the files hold everything up to `seq`, and wakes the commits that wait.
  void advance_to(std::uint64_t seq);
  std::uint64_t from() const { return from_; }
  // Called once a batch, because has_room() is asked by every commit.
  void measure() { bytes_ = commits_.journal().bytes_after(from_); }
  bool has_room() const { return bytes_ <= most; }
  // degraded when there is none within 10 s; draining.
  asio::awaitable<Result<void>> wait_for_room();
  // degraded when an agent whose checkpoint fails has too many events of its own waiting.
  Result<void> check(const Agent& agent) const;
  void drain();  // ends the waits

 private:
  static constexpr std::uint64_t most = 64ULL << 20;  // bytes of journal
  asio::awaitable<void> end_waits();

  LedgerEnv& env_;
  Commits& commits_;
  const std::string& trouble_;
  std::uint64_t from_ = 0;
  std::uint64_t bytes_ = 0;     // of journal beyond that, as of the last batch
  runtime::Waiters waiting_{};  // by their deadline (steady ms)
  bool watched_ = false;        // end_waits() runs
};

}  // namespace sessiond::ledger
