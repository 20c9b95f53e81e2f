// Lets one call about a run go on at a time: what a call has decided is durable, and known here, before the next one is
// decided. Thread: the loop.
//   const auto turn = co_await turns.take(agent, run_id);
#pragma once

#include <boost/asio/awaitable.hpp>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "daemon/runtime/waiters.hpp"

namespace sessiond::leases {

class Turns {
 public:
  // The turn lasts as long as what is returned, which must not outlive this.
  boost::asio::awaitable<std::shared_ptr<void>> take(std::string agent, std::string run_id);

 private:
  struct Turn {
    bool taken = false;
    std::size_t users = 0;
    runtime::Waiters ended{};
  };
  std::map<std::pair<std::string, std::string>, Turn> turns_{};  // that somebody has or waits for
};

}  // namespace sessiond::leases
