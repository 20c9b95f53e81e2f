// How often somebody may do something: a bucket that fills steadily up to its size, from which each time takes one.
// Times are ms of a steady clock. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace sessiond {

class Rates {
 public:
  struct Limit {
    double per_second = 0;  // 0: none
    double at_once = 0;     // the bucket's size, at least 1
  };
  struct Left {
    bool granted = true;
    std::int64_t remaining = 0;
    std::int64_t full_in_s = 0;  // until all of it may be had at once again
    std::int64_t next_in_s = 0;  // until one may be had; 0: now
  };

  // Whether `who` may once more. What has been idle for long enough to be full is forgotten, so that memory is bounded
  // by who came lately; beyond `most_known` of these, strangers share one bucket.
  Left take(std::string_view who, const Limit& limit, std::int64_t now);
  // The same without taking.
  Left look(std::string_view who, const Limit& limit, std::int64_t now) const;

 private:
  static constexpr std::size_t most_known = 10'000;
  struct Bucket {
    double level = 0;
    std::int64_t at = 0;
  };
  static double level_at(const Bucket& bucket, const Limit& limit, std::int64_t now);
  static Left left_of(double level, const Limit& limit);
  void forget_full(const Limit& limit, std::int64_t now);

  std::map<std::string, Bucket, std::less<>> buckets_;
};

}  // namespace sessiond
