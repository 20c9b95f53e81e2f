// One subscriber. It checks that it gets every event once and in order, over reconnections too.
#pragma once

#include <netinet/in.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tests/bench/histogram.hpp"
#include "tests/bench/stream/event_log.hpp"
#include "tests/bench/stream/event_parser.hpp"
#include "tests/bench/stream/net.hpp"
#include "tests/bench/stream/order.hpp"
#include "tests/bench/stream/plan.hpp"

namespace sessiond::bench::stream {

// What the readers of a run share.
struct Reading {
  Reading(const Plan& its_plan, const Poller& its_poller)
      : plan(its_plan),
        poller(its_poller),
        address(address_of(its_plan.host, its_plan.port)),
        log(its_plan.server == Server::sessiond) {}

  const Plan& plan;
  const Poller& poller;
  const sockaddr_in address;
  EventLog log;
  Faults faults{};
  std::uint64_t reconnects = 0;
  // While measuring, of readers that do not stall:
  bool measuring = false;
  std::uint64_t delivered = 0;
  std::uint64_t bytes = 0;
  Histogram latency{};  // from just before an event is sent by its publisher to just after it was received
  std::array<char, 256 * 1024> buffer{};
};

class Reader : public Pollable {
 public:
  // One that stalls reads nothing between the response head (and hello) and resume().
  Reader(Reading& reading, bool stalls) : reading_(reading), stalls_(stalls) {}

  void open();
  void ready(std::uint32_t events) override;
  void resume();
  void reconnect_when_due(std::uint64_t now);

  bool is_open() const { return state_ == State::open; }
  bool stalls() const { return stalls_; }
  const Order& order() const { return order_; }
  std::uint64_t head() const { return head_; }  // what the last stream.hello said
  std::uint64_t received() const { return received_; }

 private:
  enum class State : std::uint8_t { closed, connecting, awaiting, open, lost };

  void receive();
  void take(std::string_view block, std::uint64_t now);
  void take_event(const Block& event, std::string_view block, std::uint64_t now);
  void opened();
  void lose(const std::string& why);

  Reading& reading_;
  Socket socket_{};
  EventParser parser_{};
  Order order_{};
  std::string epoch_{};
  std::uint64_t head_ = 0;
  std::uint64_t received_ = 0;
  std::uint64_t retry_at_ = 0;
  std::uint64_t wait_ns_ = 0;
  State state_ = State::closed;
  bool stalls_;
  bool stalled_ = false;
  bool was_open_ = false;
};

}  // namespace sessiond::bench::stream
