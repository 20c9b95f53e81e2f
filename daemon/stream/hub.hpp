// The event streams of one thread.
//
// A client is a cursor into the log and a view of it, not a queue. Clients that have everything are live: rounds.hpp
// sends them each new batch, audience by audience. The others catch up, each at its own pace: catch_up.hpp. A client
// passes from one to the other and back, and never misses or repeats an event on the way. upkeep.hpp does what goes by
// the clock.
//
// Everything here belongs to the hub's thread, which is asserted; the hub may be made and destroyed by another one.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <functional>
#include <string_view>
#include <vector>

#include "daemon/runtime/one_thread.hpp"
#include "daemon/stream/catch_up.hpp"
#include "daemon/stream/client_set.hpp"
#include "daemon/stream/rounds.hpp"
#include "daemon/stream/stream_types.hpp"
#include "daemon/stream/upkeep.hpp"

namespace sessiond::stream {

class Hub {
 public:
  // `head` is the seq of the last durable event; deliver() continues from there.
  Hub(const StreamContext& context, StreamSettings settings, StreamCounters& counters,
      boost::asio::any_io_executor executor, std::uint64_t head);

  void open(Subscription subscription, http::TakenSocket socket);
  void deliver(SharedBatch batch);      // events that became durable
  void publish(SharedBatch ephemeral);  // to live clients, if there is room
  void check_tokens();
  void reconfigure(StreamSettings settings);
  void drain();                                           // every client is sent stream.bye and closed
  void close_all();                                       // at once
  bool close(std::uint64_t id, std::string_view reason);  // false: there is no such stream
  std::vector<StreamInfo> describe() const;
  std::uint64_t most_lag() const;                                        // events that the slowest stream is behind
  bool any(const std::function<bool(const StreamView&)>& wanted) const;  // of the streams that are open
  std::size_t clients() const;

 private:
  void schedule();
  void run();
  void step(StreamClient& client, StreamClient::Clock::time_point now);
  void say_bye(StreamClient& client, StreamClient::Clock::time_point now);

  HubState state_;
  ClientSet clients_;
  CatchUp catch_up_;
  Rounds rounds_;
  Upkeep upkeep_;
  runtime::OneThread thread_;
  bool scheduled_ = false;
  bool draining_ = false;
};

}  // namespace sessiond::stream
