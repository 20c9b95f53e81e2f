// The key file of encryption at rest (store/seal/keys.hpp), while the daemon runs.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>

#include "config/config.hpp"
#include "store/problem.hpp"

namespace sessiond::serve {

// Takes the keys that the configuration names for this process (seal::start). With a key file, removes a search index
// that lies in the state directory: it has what was said in clear, and is made again in memory.
Result<void> take_keys(const config::Config& config);
// Reads the key file again, on a disk thread, and logs what came of it. After a fault the keys of before stay.
boost::asio::awaitable<void> reload_keys(boost::asio::thread_pool::executor_type disk);

}  // namespace sessiond::serve
