// Owns what is handed out or kept for a time: runs, questions about tools, takeovers, calls of hooks, deliveries, early
// changes. Thread: the loop.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "daemon/decide/events.hpp"
#include "daemon/leases/approvals.hpp"
#include "daemon/leases/claims.hpp"
#include "daemon/leases/early_changes.hpp"
#include "daemon/leases/hooks.hpp"
#include "daemon/leases/outbox.hpp"
#include "daemon/leases/runners.hpp"
#include "daemon/leases/takeovers.hpp"
#include "daemon/ledger/ledger.hpp"

namespace sessiond::leases {

class Work {
 public:
  explicit Work(ledger::Ledger& ledger)
      : claims(ledger),
        runners(ledger),
        approvals(ledger),
        takeovers(ledger),
        hooks(ledger),
        outbox(ledger),
        early(ledger) {}

  void start();                           // takes up what there was before; to be called before requests are served
  void see(const decide::Change& event);  // that became durable
  void drain();                           // requests that wait are answered
  boost::asio::awaitable<void> stop();    // ends nothing

  Claims claims;
  Runners runners;
  Approvals approvals;
  Takeovers takeovers;
  Hooks hooks;
  Outbox outbox;
  EarlyChanges early;
};

}  // namespace sessiond::leases
