// Knows which runs are under way at a place of a transcript, by the entries that tell of runs (RunNote). The order of a
// conversation (run_order.hpp) and the meter both use it, so they agree.
//
// The attempts of a run count as one: a run whose record says that another attempt follows stays under way. One whose
// record is missing ends where another run begins.
#pragma once

#include <string>
#include <vector>

#include "policy/context/entry.hpp"

namespace sessiond::context {

class OpenRuns {
 public:
  struct Open {
    std::string run{};       // the id of its last attempt
    bool waits = false;      // for its next attempt
    bool overtaken = false;  // another run has begun meanwhile
    friend bool operator==(const Open&, const Open&) = default;
  };
  OpenRuns() = default;
  explicit OpenRuns(std::vector<Open> open) : open_(std::move(open)) {}

  // Takes in the next entry that tells of a run. Runs beside which other programs answer are left aside.
  void take(const RunNote& note);
  bool any() const { return !open_.empty(); }
  const std::vector<Open>& all() const { return open_; }

 private:
  std::vector<Open> open_{};
};

}  // namespace sessiond::context
