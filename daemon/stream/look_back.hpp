// Where a stream with replay=<n> begins: before the last n events that its view shows. They are looked for backwards,
// first in the tail in memory, then in about 64 MiB of the journal and not beyond damage; those found until then are
// the ones replayed.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cstdint>
#include <functional>
#include <memory>

#include "daemon/stream/filter.hpp"
#include "daemon/stream/tail.hpp"
#include "store/journal/journal.hpp"

namespace sessiond {

// The seq of the first event to replay; head+1 when there is none. `go_on` is asked before each read of the disk; false
// ends the search with what it has.
boost::asio::awaitable<Result<std::uint64_t>> look_back(const Tail& tail, const Journal& journal,
                                                        boost::asio::thread_pool& disk,
                                                        std::shared_ptr<const StreamView> view, std::uint64_t n,
                                                        std::function<bool()> go_on);

}  // namespace sessiond
