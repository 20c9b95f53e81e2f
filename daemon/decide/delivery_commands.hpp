// The commands about deliveries (daemon/leases/README.md), as commands.hpp has those about sessions. Each `decide` is
// pure. A delivery that does not exist, or that the requester may not see, is delivery_not_found.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "daemon/decide/commands.hpp"

namespace sessiond::decide {

// Tells whether the requester may see a delivery, or wants it.
using SeesDelivery = std::function<bool(const AgentState&, const Delivery&)>;

// Leases the first delivery of each conversation that is wanted and need not wait. The answer is an array of them; 204
// if there is none.
struct ClaimDeliveries {
  SeesDelivery wants{};
  std::function<bool(const std::string& id)> waits{};  // a retry whose time has not come
  std::size_t limit = 10;
  std::size_t taken_bytes = 0;  // what the same answer has of other agents
  std::int64_t lease_ms = 60'000;
};
struct AckDelivery {
  std::string id{};
  std::string platform_message_id{};  // raw JSON string; empty: none
  std::string parts{};                // raw JSON array; empty: none
  SeesDelivery sees{};
};
// lease_lost for the next two unless `attempt` is the one that has the lease.
struct NackDelivery {
  std::string id{};
  std::int64_t attempt = 0;
  std::string error{};  // raw JSON object
  std::optional<std::int64_t> retry_after_ms{};
  bool final = false;
  SeesDelivery sees{};
};
struct ExtendDelivery {
  std::string id{};
  std::int64_t attempt = 0;
  std::int64_t lease_ms = 0;
  SeesDelivery sees{};
};
// Sends a failed one after all. Others stay as they are.
struct RetryDelivery {
  std::string id{};
  SeesDelivery sees{};
};
// Gives up one that is not sent.
struct DropDelivery {
  std::string id{};
  SeesDelivery sees{};
};
// The daemon ends a lease, or gives up a delivery that is too old. Answers 200, or 204 if it is otherwise by
// now.
struct ExpireDelivery {
  std::string id{};
  std::int64_t attempt = 0;
  bool too_old = false;
};

Result<Decision> decide(const AgentState& state, const ClaimDeliveries& command, const Context& context);
Result<Decision> decide(const AgentState& state, const AckDelivery& command, const Context& context,
                        const FetchedLines& lines);
Result<Decision> decide(const AgentState& state, const NackDelivery& command, const Context& context);
Result<Decision> decide(const AgentState& state, const ExtendDelivery& command, const Context& context);
Result<Decision> decide(const AgentState& state, const RetryDelivery& command, const Context& context);
Result<Decision> decide(const AgentState& state, const DropDelivery& command, const Context& context);
Result<Decision> decide(const AgentState& state, const ExpireDelivery& command, const Context& context);

// Returns how long a delivery waits after a failed attempt: 1, 2, 4 … 300 s.
std::int64_t retry_delay_ms(std::int64_t attempt);

std::unexpected<Problem> no_such_delivery(std::string_view id);

}  // namespace sessiond::decide
