// Keep-alive connections that publish events: at a rate, or each its next when the last is acknowledged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/bench/stream/net.hpp"
#include "tests/bench/stream/plan.hpp"

namespace sessiond::bench::stream {

class Publisher;

class Publishers {
 public:
  Publishers(const Plan& plan, const Poller& poller);
  ~Publishers();

  void begin(std::uint64_t now);
  // Sends what is due; nanoseconds until something else will be.
  std::uint64_t turn(std::uint64_t now);
  void hold(bool hold) { hold_ = hold; }  // nothing new is sent
  bool done(std::uint64_t now) const;     // everything was sent and acknowledged

  std::uint64_t acknowledged() const { return acknowledged_; }
  std::uint64_t retries() const { return retries_; }
  std::uint64_t late_ns() const { return late_ns_; }  // the most that a sending was behind its time
  std::uint64_t head() const { return head_; }        // sessiond: the latest seq that was acknowledged
  std::size_t publisher_of(std::uint64_t number) const { return publisher_of_.at(number); }
  std::uint64_t sent() const { return publisher_of_.size(); }

 private:
  friend class Publisher;
  bool may_send(std::uint64_t now) const;
  std::uint64_t due(std::uint64_t number) const;

  const Plan& plan_;
  const Poller& poller_;
  const sockaddr_in address_;
  std::vector<std::unique_ptr<Publisher>> all_{};
  std::vector<std::size_t> idle_{};
  std::vector<std::size_t> publisher_of_{};  // by number
  std::uint64_t begun_at_ = 0;
  std::uint64_t acknowledged_ = 0;
  std::uint64_t retries_ = 0;
  std::uint64_t late_ns_ = 0;
  std::uint64_t head_ = 0;
  bool hold_ = false;
};

}  // namespace sessiond::bench::stream
