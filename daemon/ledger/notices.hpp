// Tells operators and subscribers of repairs, of locks that were taken away, and of agents and files that cannot be
// used: each is logged and becomes an event. Thread: the loop.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/ledger/commits.hpp"
#include "store/lock/lock.hpp"

namespace sessiond::ledger {

class Notices {
 public:
  Notices(LedgerEnv& env, Commits& commits) : env_(env), commits_(commits) {}

  // store.degraded: something cannot be used, or was missed. Not while nothing can be committed. `what`: the member of
  // that name; empty: none.
  void degraded(std::string_view reason, const std::string& agent = {}, std::string_view what = {});
  // store.repaired, once for each; `path`: what was repaired, where it is not the agent's store.
  void repaired(const std::string& agent, const std::vector<std::string>& repairs, const std::string& path = {});
  // Notes a repair of the journal or of the files beside it: in the log and for /readyz only.
  void journal_repaired(std::string what);
  // session.released, to open streams only
  void released(const std::string& agent, const decide::Session& session, std::string lineage);
  // lock.evicted
  void evicted(const std::string& agent, const std::vector<lock::Eviction>& evictions);

  const std::vector<std::string>& repairs() const { return repairs_; }  // since the start
  std::uint64_t evictions() const { return evictions_; }

 private:
  void announce(journal::EventType type, std::string data, std::string agent);

  LedgerEnv& env_;
  Commits& commits_;
  std::vector<std::string> repairs_{};
  std::uint64_t evictions_ = 0;
};

}  // namespace sessiond::ledger
