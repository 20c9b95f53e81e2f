// Lets one call about a run go on at a time: what a call has decided is durable, and known here, before the next one is
// decided. Turns are of one token, so a token that does not have the run holds up no call of the one that has it.
// Thread: the loop.
//   const auto turn = co_await turns.take(agent, run_id, token);
#pragma once

#include <boost/asio/awaitable.hpp>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "daemon/runtime/waiters.hpp"

namespace sessiond::leases {

class Turns {
 public:
  // The turn lasts as long as what is returned, which must not outlive this.
  boost::asio::awaitable<std::shared_ptr<void>> take(std::string agent, std::string run_id, std::string token);

 private:
  struct Turn {
    bool taken = false;
    std::size_t users = 0;
    runtime::Waiters ended{};
  };
  std::map<std::tuple<std::string, std::string, std::string>, Turn> turns_{};  // that a call has or waits for
};

}  // namespace sessiond::leases
