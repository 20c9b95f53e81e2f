#include "daemon/leases/turns.hpp"

namespace sessiond::leases {

boost::asio::awaitable<std::shared_ptr<void>> Turns::take(std::string agent, std::string run_id, std::string token) {
  const auto found = turns_.try_emplace({std::move(agent), std::move(run_id), std::move(token)}).first;
  Turn& turn = found->second;
  ++turn.users;
  while (turn.taken) co_await turn.ended.wait(0);
  turn.taken = true;
  co_return std::shared_ptr<void>(nullptr, [this, found](void*) {
    found->second.taken = false;
    if (--found->second.users == 0)
      turns_.erase(found);
    else
      found->second.ended.release(0);
  });
}

}  // namespace sessiond::leases
