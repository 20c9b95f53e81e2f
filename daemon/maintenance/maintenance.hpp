// Takes out of the stores of agents what a limit reaches (policy/maintenance.hpp). Sessions that go by age or number
// are archived, and so are orphans. Archives are destroyed, and so are sessions that go to clear disk space.
//
// A selected session stays if it was used or changed since it was selected, an archive if it was restored, an orphan if
// it was adopted. Works in slices, with other requests between. Thread: the loop.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.hpp"
#include "daemon/ledger/ledger.hpp"
#include "daemon/maintenance/stock.hpp"
#include "policy/maintenance.hpp"

namespace sessiond::maintenance {

// Lives while an agent is looked at. If the agent was not in memory before, it leaves memory again (Ledger::unload).
class Visit {
 public:
  Visit(ledger::Ledger& ledger, std::string agent)
      : ledger_(ledger), agent_(std::move(agent)), was_there_(ledger::is_in_memory(ledger.parts().agents, agent_)) {}
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;
  ~Visit() {  // NOLINT(bugprone-exception-escape): throws when memory is out, and the daemon ends
    if (!was_there_) ledger_.unload(agent_);
  }

 private:
  ledger::Ledger& ledger_;
  std::string agent_;
  bool was_there_;
};

struct Taken {
  using Kind = policy::Selection::Kind;
  std::string agent;
  std::string key{};  // of an archive: empty if no record names it. Of an orphan: what adopting it would give
  std::string session_id{};
  Kind kind = Kind::session;
  policy::PruneReason reason;
  std::int64_t time = 0;  // ms since the epoch: of the last interaction, of the end, or of the last write
  std::uint64_t bytes = 0;
  std::uint64_t last_seq = 0;  // of a session, as it was selected: Session::last_seq, updated_at
  std::int64_t updated_at = 0;
  std::string ending{};              // of an archive
  std::vector<std::string> files{};  // of an archive or orphan
  std::string entry_as{};            // of an archive

  // The name of an archive or orphan, that of its first file; empty for a session.
  std::string_view file() const {
    return kind == Kind::session ? std::string_view() : std::string_view(files.empty() ? entry_as : files.front());
  }
};
struct Kept {
  std::string agent, key;
  std::string_view because;  // decide::Protection::keeps
};
struct Selected {
  std::vector<Taken> taken{};
  std::vector<Kept> kept{};  // sessions that a limit reaches and that stay
};

policy::RetentionLimits limits_of(const config::Config::Session& config);

// Selects what the limits reach of one agent. Errors: those of Ledger::show.
asio::awaitable<Result<Selected>> select(ledger::Ledger& ledger, std::string agent, policy::RetentionLimits limits,
                                         const decide::Protection& protection);
// Takes what was selected of one agent; afterwards `taken` holds only what went. Errors: those of Checkpointer::hold
// and Ledger::commit.
asio::awaitable<Result<void>> take(ledger::Ledger& ledger, std::string actor, std::vector<Taken>& taken,
                                   const decide::Protection& protection);

}  // namespace sessiond::maintenance
