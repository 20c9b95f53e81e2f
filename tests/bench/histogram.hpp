// Latencies in nanoseconds, counted in buckets of 1.6 % width, so that a quantile costs no memory for each request.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace sessiond::bench {

class Histogram {
 public:
  void add(std::uint64_t value) {
    ++buckets_[bucket(value)];
    ++count_;
    max_ = std::max(max_, value);
  }
  std::uint64_t count() const { return count_; }
  std::uint64_t max() const { return max_; }

  // The upper end of the bucket in which the quantile lies; 0 without values.
  std::uint64_t quantile(double q) const {
    const auto rank = static_cast<std::uint64_t>(q * static_cast<double>(count_));
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      seen += buckets_[i];
      if (seen > rank) return std::min(upper(i), max_);
    }
    return max_;
  }

 private:
  static constexpr unsigned bits = 6;  // 64 buckets for each power of two
  static constexpr std::size_t linear = std::size_t{1} << bits;

  static std::size_t bucket(std::uint64_t value) {
    if (value < linear) return static_cast<std::size_t>(value);
    const auto shift = static_cast<unsigned>(std::bit_width(value)) - bits - 1;
    return (std::size_t{shift} << bits) + static_cast<std::size_t>(value >> shift);
  }
  static std::uint64_t upper(std::size_t bucket) {
    if (bucket < 2 * linear) return bucket;
    const std::size_t shift = (bucket >> bits) - 1;
    const std::uint64_t mantissa = bucket - (shift << bits);
    return ((mantissa + 1) << shift) - 1;
  }

  std::array<std::uint64_t, (64 - bits + 1) * linear> buckets_{};
  std::uint64_t count_ = 0;
  std::uint64_t max_ = 0;
};

}  // namespace sessiond::bench
