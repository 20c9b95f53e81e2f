// Takes old sessions out of the stores of agents: those that a limit reaches (policy/maintenance.hpp). Sessions that go
// by age or number are archived; those that go to clear disk space are destroyed. Sessions that are in use are never
// taken: the main session of an agent, parents of living sessions, those with an open stream, those that are pinned or
// preserved.
//
// Works in slices, with other requests between. Thread: the loop.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/ledger/ledger.hpp"
#include "policy/maintenance.hpp"

namespace sessiond::maintenance {

struct Order {
  std::vector<std::string> agents{};
  policy::RetentionLimits limits{};
  std::vector<std::string> preserve{};                       // prefixes of keys
  std::set<std::pair<std::string, std::string>> streamed{};  // agent and key of sessions with a stream of their own
  std::string actor{};
  bool dry_run = true;  // only tells what would go
};

struct Taken {
  std::string agent, key, session_id;
  policy::PruneReason reason;
  std::int64_t last_interaction = 0;  // ms since the epoch
  std::uint64_t bytes = 0;            // of its transcripts
  std::uint64_t last_seq = 0;         // as it was selected: Session::last_seq, updated_at
  std::int64_t updated_at = 0;
};
struct Kept {
  std::string agent, key;
  std::string_view because;  // main, children, stream, pinned or preserve
};
struct Outcome {
  std::vector<Taken> taken{};  // or would be, in a dry run
  std::vector<Kept> kept{};    // sessions that a limit reaches and that stay
};

// Errors: those of Ledger::show and Ledger::commit; what was taken before stays taken.
asio::awaitable<Result<Outcome>> carry_out(ledger::Ledger& ledger, Order order);

}  // namespace sessiond::maintenance
