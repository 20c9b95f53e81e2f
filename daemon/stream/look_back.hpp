// Finds where a stream with replay=<n> begins: before the last n events that its view shows. The search goes backwards,
// through the tail in memory, then through the journal. It ends early after about 64 MiB of journal, or where events
// are damaged; then fewer than n events are replayed.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cstdint>
#include <functional>
#include <memory>

#include "daemon/stream/filter.hpp"
#include "daemon/stream/tail.hpp"
#include "store/journal/journal.hpp"

namespace sessiond::stream {

// Returns the seq of the first event to replay, or head + 1 when there is none. Runs on the thread of `tail` and reads
// the journal on `disk`. `go_on` is asked before each read; false ends the search with what it has found.
boost::asio::awaitable<Result<std::uint64_t>> look_back(const Tail& tail, const journal::Journal& journal,
                                                        boost::asio::thread_pool& disk,
                                                        std::shared_ptr<const StreamView> view, std::uint64_t n,
                                                        std::function<bool()> go_on);

}  // namespace sessiond::stream
