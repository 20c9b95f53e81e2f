// What is known of every event, told by the reader that gets it first; all others must get the same.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tests/bench/stream/dialect.hpp"

namespace sessiond::bench::stream {

class EventLog {
 public:
  explicit EventLog(bool positions_are_given) : given_(positions_are_given) {}

  // The event's place in the one order that all readers must see: sessiond names it, elsewhere it is the order in which
  // the readers' foremost saw the events.
  std::uint64_t position(std::uint64_t number);

  struct Event {
    std::uint64_t sent_ns = 0;  // 0: not one of ours
    std::uint64_t number = 0;   // the mark's
    std::uint32_t mark_at = 0;  // in the block
    bool seen = false;
  };
  // Null: not the event that another reader got at this position.
  const Event* same(std::uint64_t position, std::string_view block);

  std::uint64_t first() const { return first_; }  // position of events()[0]
  const std::vector<Event>& events() const { return events_; }

 private:
  const bool given_;
  std::unordered_map<std::uint64_t, std::uint64_t> positions_{};  // by number
  std::uint64_t first_ = 0;
  std::vector<Event> events_{};
};

}  // namespace sessiond::bench::stream
