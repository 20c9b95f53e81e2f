// Hands deliveries to the bridges that claim them, and ends what is over: leases, the waiting of retries, the age of
// deliveries that nobody sends (README.md).
//
// Times run on the monotonic clock. After a restart a lease has the rest that is known of it, and at least
// min(leaseMs, 10 s). Thread: the loop.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/decide/delivery_commands.hpp"
#include "daemon/leases/adopter.hpp"
#include "daemon/ledger/ledger.hpp"
#include "daemon/runtime/deadlines.hpp"
#include "daemon/runtime/long_poll.hpp"
#include "daemon/runtime/waiters.hpp"

namespace sessiond::leases {

class Outbox {
 public:
  explicit Outbox(ledger::Ledger& ledger);

  void start();                           // takes up the deliveries of before
  asio::awaitable<void> stop();           // ends nothing
  void drain() { polls_.drain(); }        // those that wait get nothing
  void see(const decide::Change& event);  // that became durable

  struct Wish {
    decide::Adoption part{};      // of all deliveries, that the claim is about
    decide::SeesDelivery sees{};  // whether the requester may see a delivery
    std::string actor{};
    std::size_t limit = 10;
    std::int64_t lease_ms = 60'000;
    std::int64_t wait_ms = 0;
    std::function<bool()> gone{};  // the client has closed its connection
    bool tells_failure = false;    // the part is one agent, and the requester may know that it cannot be served
  };
  // From here on the deliveries of the wish's part are kept; that is durable before this waits. Returns the deliveries
  // as JSON arrays; none: nothing came in time. Ends early when drain() is called.
  asio::awaitable<Result<std::vector<std::string>>> claim(Wish wish);

  // Ends the adoptions of a token that was revoked.
  asio::awaitable<void> forget_token(std::string token) { co_await adopter_.drop_token(token); }

  // The agents that may have the delivery with this id, or, without an id, that may have any. Waits until all
  // deliveries of before are taken up.
  asio::awaitable<std::vector<std::string>> agents_with(std::string_view id = {});

  decide::DeliveryBook::Counts counts() const;  // of all agents, about

 private:
  struct Place {  // where a delivery lies
    std::string agent{}, key{}, channel{}, account_id{};
  };
  struct Kept {  // an unsent delivery; times in steady ms
    Place place{};
    std::int64_t attempt = 0;
    std::int64_t lease_until = 0;  // 0: it is not leased
    std::int64_t ready = 0;        // a retry waits until then; 0: it does not wait
    std::int64_t too_old = 0;
  };

  asio::awaitable<void> take_up(std::set<std::string> recovered);
  asio::awaitable<void> take_up_again(std::string agent, std::string id);
  void take_up_one(const decide::AgentState& state, const decide::Delivery& delivery);
  asio::awaitable<void> wait_until_taken_up();
  asio::awaitable<Result<std::vector<std::string>>> claim_now(const Wish& wish);
  void delivery_is_due(const std::string& id);
  void look_at_adoptions_later();
  asio::awaitable<void> look_at_adoptions();
  asio::awaitable<void> end(std::string id, std::string agent, std::int64_t attempt, bool too_old);
  void schedule(const std::string& id, const Kept& kept);
  void forget(const std::string& id);
  void wake_claims(const Place& place);  // those that want what lies there
  bool waits(const std::string& id) const;

  ledger::Ledger& ledger_;
  const runtime::Clock& clock_;
  Adopter adopter_;
  ledger::Background background_;
  std::map<std::string, Kept, std::less<>> kept_{};  // by id
  runtime::Deadlines<std::string> deadlines_;        // of each of these, and of the next look at adoptions
  std::map<std::string, decide::DeliveryBook::Counts, std::less<>> agents_{};  // that have a book of deliveries
  runtime::LongPoll<decide::Adoption> polls_;  // by the part of all deliveries that each claims
  runtime::Waiters taken_up_{};
  bool is_taken_up_ = false;
};

}  // namespace sessiond::leases
