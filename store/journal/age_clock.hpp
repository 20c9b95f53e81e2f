// A clock for retention that nobody can set. If retention used the wall clock, setting the clock forward would delete
// events and idempotency answers at once.
//
// It counts milliseconds and begins near the wall clock. Then it follows only the kernel's clock since boot, so steps
// of the wall clock do not change it. It stands still while the machine is off. So it may be behind the wall clock, and
// things are kept longer, never shorter. <stateDir>/journal/clock holds its state.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "store/problem.hpp"

namespace sessiond::journal {

class AgeClock {
 public:
  struct Machine {
    std::string_view boot{};         // differs after each boot; a text that lives on
    std::int64_t since_boot_ms = 0;  // including suspended time
    std::int64_t wall_ms = 0;
  };
  static Machine this_machine();
  using Look = std::function<Machine()>;

  // `newest`: the latest time of this clock that is stored anywhere; 0: none. `head`: the seq of the last event.
  // Blocks.
  static std::unique_ptr<AgeClock> open(std::filesystem::path path, std::int64_t newest, std::uint64_t head,
                                        Look look = this_machine);

  std::int64_t now() const;  // any thread
  // What is left of a time of `length_ms` that began at `wall` by the wall clock and at `age` by this one (0: not
  // known): the larger of both, and never more than all of it. A wall clock that is wrong for a while thus ends
  // nothing. Any thread.
  std::int64_t rest_of(std::int64_t length_ms, std::int64_t wall, std::int64_t age) const;

  // Records that events up to `head` exist now. Returns the last seq such that all events up to it have existed for
  // `age_ms`; 0: none. Any thread. Blocks. A failed write of the file is repeated by the next call.
  std::uint64_t older_than(std::int64_t age_ms, std::uint64_t head);

 private:
  struct Mark {
    std::int64_t time = 0;
    std::uint64_t head = 0;
  };

  AgeClock(std::filesystem::path path, Look look) : path_(std::move(path)), look_(std::move(look)) {}
  Result<void> read(std::string_view text, const Machine& machine);
  Result<void> write() const;

  const std::filesystem::path path_;
  const Look look_;
  std::int64_t ahead_ = 0;  // now() minus the count since boot
  std::mutex mutex_;
  std::deque<Mark> marks_;  // oldest first
};

}  // namespace sessiond::journal
