// From what the index proposes to what is shown. A hit is held against the state as it is and against the token's
// scope, and its entry is read as GET gives it: so an index that is behind, damaged or wrong shows nothing that is not
// said there now, to nobody who may not read it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/api/api.hpp"
#include "daemon/auth/principal.hpp"
#include "daemon/search/finder.hpp"

namespace sessiond::api {

struct ShownHit {
  std::int64_t row = 0;  // of the index
  std::string json{};    // as a list of hits has it
};
struct ShownHits {
  std::vector<ShownHit> hits{};  // in the order of the index
  bool partial = false;          // an agent or a transcript cannot be read
  // The first row that was not read in time: the page ends before it. 0: all were read.
  std::int64_t unread = 0;
};

// Returns those of the hits that are shown.
asio::awaitable<Result<ShownHits>> hits_as_shown(Api& api, const auth::Principal& principal,
                                                 std::shared_ptr<const search::Asked> asked, search::Found found,
                                                 std::chrono::steady_clock::time_point deadline);

}  // namespace sessiond::api
