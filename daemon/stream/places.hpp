// How many streams each token has open (limits.streamsPerToken): event streams, and long polls while they wait. A
// stream holds its place for as long as it lives; its ticket's token is its token. Places are taken on the ledger's
// thread, and may be let go on any.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "daemon/auth/principal.hpp"
#include "store/problem.hpp"

namespace sessiond {

class StreamPlaces {
 public:
  using Place = std::shared_ptr<void>;
  // too_many_requests when the token has `most` already (0: no limit). The unix socket has no token, so no limit.
  Result<Place> take(const Principal& who, std::uint64_t most);

 private:
  using Count = std::atomic<std::uint64_t>;
  std::map<std::string, std::shared_ptr<Count>> taken_;  // by token id
};

}  // namespace sessiond
