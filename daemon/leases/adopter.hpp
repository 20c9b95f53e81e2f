// Keeps what is adopted (decide/adoptions.hpp) on disk: a claim waits until its adoption is durable, and an adoption
// ends when its claim has not come again for deliveries.adoptMs. Thread: the loop.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "daemon/decide/adoptions.hpp"
#include "daemon/ledger/ledger.hpp"

namespace sessiond::leases {

class Adopter {
 public:
  explicit Adopter(ledger::Ledger& ledger) : ledger_(ledger) {}

  // A claim of this part came: from here on its deliveries are kept, and that is durable.
  asio::awaitable<Result<void>> adopt(decide::Adoption part);
  // The claim still waits.
  void renew(decide::Adoption part);
  asio::awaitable<void> drop_old();

 private:
  asio::awaitable<Result<void>> store();

  ledger::Ledger& ledger_;
  bool is_storing_ = false;
};

}  // namespace sessiond::leases
