// One reader's account: every position from its first on, once, in order.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_set>

namespace sessiond::bench::stream {

struct Faults {
  std::uint64_t lost = 0;
  std::uint64_t doubled = 0;
  std::uint64_t out_of_order = 0;
  std::uint64_t changed = 0;  // not what another reader got at the same position
  std::uint64_t gaps = 0;     // stream.gap

  std::uint64_t sum() const { return lost + doubled + out_of_order + changed + gaps; }
  void add(const Faults& other) {
    lost += other.lost;
    doubled += other.doubled;
    out_of_order += other.out_of_order;
    changed += other.changed;
    gaps += other.gaps;
  }
};

class Order {
 public:
  void start(std::uint64_t position) { next_ = position; }
  std::uint64_t next() const { return next_; }

  void take(std::uint64_t position, Faults& faults) {
    if (position == next_) {
      ++next_;
    } else if (position > next_) {
      faults.lost += position - next_;
      if (!missing_) missing_ = std::make_unique<std::unordered_set<std::uint64_t>>();
      for (; next_ < position; ++next_) missing_->insert(next_);
      ++next_;
    } else if (missing_ && missing_->erase(position) == 1) {
      --faults.lost;
      ++faults.out_of_order;
    } else {
      ++faults.doubled;
    }
  }
  void end(std::uint64_t end, Faults& faults) const {
    if (end > next_) faults.lost += end - next_;
  }

 private:
  std::uint64_t next_ = 0;
  std::unique_ptr<std::unordered_set<std::uint64_t>> missing_{};
};

}  // namespace sessiond::bench::stream
