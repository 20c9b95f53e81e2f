// Limits how often something may be done, by token buckets: each sender's bucket fills steadily up to its size, and
// each time takes one. Times are ms of a steady clock. Belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace sessiond::auth {

class Rates {
 public:
  struct Limit {
    double per_second = 0;  // 0: no limit
    double at_once = 0;     // the bucket's size, at least 1
  };
  struct Left {
    bool granted = true;
    std::int64_t remaining = 0;
    std::int64_t full_in_s = 0;  // until the bucket is full
    std::int64_t next_in_s = 0;  // until one may be taken; 0: now
  };

  // Takes one from the bucket of `who`, if there is one. Full buckets are forgotten when there are many; beyond
  // `most_known` buckets that are not full, new senders share one.
  Left take(std::string_view who, const Limit& limit, std::int64_t now);
  // Returns what take() would find, without taking.
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

}  // namespace sessiond::auth
