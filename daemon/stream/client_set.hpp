// All clients of one hub. Every change of a client's state goes through enter(), so that what belongs to a state (a
// place in an audience, a turn in the queue, a wait for the socket) comes and goes with it. Belongs to the hub's
// thread.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/stream/audience.hpp"
#include "daemon/stream/stream_client.hpp"
#include "daemon/stream/stream_types.hpp"
#include "daemon/stream/tail.hpp"

namespace sessiond::stream {

// The state that the parts of a hub share.
struct HubState {
  const StreamContext& context;
  StreamSettings settings;
  StreamCounters& counters;
  boost::asio::any_io_executor executor;
  Tail tail;
  std::function<void()> wake;  // lets the hub run soon: a client became ready, or a round is due

  std::string id(std::uint64_t seq) const;  // as clients see it: "<epoch>-<seq>"
};

class ClientSet {
 public:
  explicit ClientSet(HubState& hub) : hub_(hub) {}
  ~ClientSet();  // closes all sockets
  ClientSet(const ClientSet&) = delete;
  ClientSet& operator=(const ClientSet&) = delete;

  StreamClient& add(Subscription subscription, http::TakenSocket socket);
  void enter(StreamClient& client, StreamClient::State to);
  // Decides what comes after a send: another turn, a wait for the socket, or the end.
  void after_send(StreamClient& client, StreamClient::Sent sent);
  // Sends nothing more and waits for the client to close. `reason` is a literal, logged once the client is gone; the
  // first reason given counts.
  void begin_closing(StreamClient& client, std::string_view reason);
  void remove(StreamClient& client, std::string_view reason);

  std::shared_ptr<StreamClient> next_ready();  // null: none is
  bool any_ready() const { return !ready_.empty(); }
  const std::vector<std::shared_ptr<StreamClient>>& all() const { return all_; }
  const Audiences& audiences() const { return audiences_; }

 private:
  HubState& hub_;
  Audiences audiences_;
  std::vector<std::shared_ptr<StreamClient>> all_;
  std::deque<std::shared_ptr<StreamClient>> ready_;
};

}  // namespace sessiond::stream
