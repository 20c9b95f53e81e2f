// Limits how many streams each token has open (limits.streamsPerToken). Event streams count, and long polls while they
// wait; a stream opened with a ticket counts for the ticket's token. take() runs on the ledger's thread; slots may be
// released on any thread, and after the quota is gone.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "daemon/auth/principal.hpp"
#include "store/problem.hpp"

namespace sessiond {

class StreamQuota {
 public:
  using Slot = std::shared_ptr<void>;
  // Returns a slot, which is returned to the token when its last copy is destroyed. too_many_requests when the token
  // has `most` already (0: no limit). The unix socket has no token and no limit.
  Result<Slot> take(const Principal& who, std::uint64_t most);

 private:
  using Count = std::atomic<std::uint64_t>;
  std::map<std::string, std::shared_ptr<Count>> taken_;  // by token id
};

}  // namespace sessiond
