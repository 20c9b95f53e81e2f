// Keeps what is adopted (decide/adoptions.hpp) on disk: a claim waits until its adoption is durable, and an adoption
// ends when its claim has not come again for deliveries.adoptMs. One write at a time; it is for all that wait. Thread:
// the loop.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <string_view>

#include "daemon/decide/adoptions.hpp"
#include "daemon/ledger/ledger.hpp"
#include "daemon/runtime/waiters.hpp"

namespace sessiond::leases {

class Adopter {
 public:
  explicit Adopter(ledger::Ledger& ledger) : ledger_(ledger) {}

  // A claim of this part came: its deliveries are kept from now on. Returns when that is durable.
  asio::awaitable<Result<void>> adopt(decide::Adoption part);
  // The claim still waits.
  void renew(decide::Adoption part);
  asio::awaitable<void> drop_old();
  asio::awaitable<void> drop_token(std::string_view token);

 private:
  // Returns when the list is stored as it was at this change, or later.
  asio::awaitable<Result<void>> store(std::uint64_t change);
  asio::awaitable<void> store_dropped(bool dropped);

  ledger::Ledger& ledger_;
  std::uint64_t changes_ = 0;
  std::uint64_t stored_ = 0;  // the last change that is
  bool is_storing_ = false;
  runtime::Waiters written_{};
};

}  // namespace sessiond::leases
