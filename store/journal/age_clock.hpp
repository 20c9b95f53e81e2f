// How long something has been kept, by a clock that nobody can set. It counts like milliseconds since the epoch, begins
// near the wall clock, and then goes only with the kernel's count since boot: a step of the wall clock does not reach
// it. While the machine is off it stands still, since how long that was only the wall clock would say; so it may be
// behind, and what goes by it is kept rather longer. <stateDir>/journal/clock holds where it stood, and when.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "store/problem.hpp"

namespace sessiond {

class AgeClock {
 public:
  struct Machine {
    std::string boot{};              // differs after each start of the machine
    std::int64_t since_boot_ms = 0;  // suspended time included
    std::int64_t wall_ms = 0;
  };
  static Machine this_machine();
  using Look = std::function<Machine()>;

  // `newest`: the newest time that this clock has told and that is still known; 0: none. `head`: the last event.
  static std::unique_ptr<AgeClock> open(std::filesystem::path path, std::int64_t newest, std::uint64_t head,
                                        Look look = this_machine);

  std::int64_t now() const;  // any thread

  // Notes that everything up to `head` is there by now. Up to which event everything has been there for `age_ms`; 0:
  // none has. Blocks; what cannot be written is written the next time.
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
  std::int64_t ahead_ = 0;  // of the count since boot
  std::mutex mutex_;
  std::deque<Mark> marks_;  // oldest first
};

}  // namespace sessiond
