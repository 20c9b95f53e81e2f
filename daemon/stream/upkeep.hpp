// Does the work of a hub that depends on the clock: keep-alives, the end of stalled clients, and of those whose token
// was revoked, has expired or got another scope. The timer runs only while there are clients, so that an idle daemon
// sleeps. Belongs to the hub's thread.
#pragma once

#include <boost/asio/steady_timer.hpp>

#include "daemon/stream/client_set.hpp"

namespace sessiond::stream {

class Upkeep {
 public:
  Upkeep(HubState& hub, ClientSet& clients)
      : hub_(hub), clients_(clients), timer_(hub.executor), generation_(hub.context.token_generation()) {}

  void watch(const StreamClient& client);  // a new one
  void check_tokens();
  void check_tokens_if_changed();

 private:
  void arm();
  void tick();
  void tick(StreamClient& client, StreamClient::Clock::time_point now);

  HubState& hub_;
  ClientSet& clients_;
  boost::asio::steady_timer timer_;
  bool armed_ = false;
  std::int64_t shortest_heartbeat_ms_ = 0;  // of the clients since there last were none
  std::uint64_t generation_;                // of the tokens, when they were last checked
  StreamClient::Clock::time_point checked_{};
};

// The frame that tells a client its position, when events passed that it is not shown; else nothing.
std::string position_update(const HubState& hub, StreamClient& client);

}  // namespace sessiond::stream
