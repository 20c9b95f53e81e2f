#include "daemon/auth/rate.hpp"

#include <algorithm>
#include <cmath>

namespace sessiond::auth {

double Rates::level_at(const Bucket& bucket, const Limit& limit, std::int64_t now) {
  const double since_s = static_cast<double>(std::max<std::int64_t>(now - bucket.at, 0)) / 1e3;
  return std::min(limit.at_once, bucket.level + since_s * limit.per_second);
}

Rates::Left Rates::left_of(double level, const Limit& limit) {
  const auto seconds = [&](double missing) {
    return missing <= 0 ? 0 : static_cast<std::int64_t>(std::ceil(missing / limit.per_second));
  };
  return {.granted = level >= 1,
          .remaining = static_cast<std::int64_t>(level),
          .full_in_s = seconds(limit.at_once - level),
          .next_in_s = seconds(1 - level)};
}

void Rates::forget_full(const Limit& limit, std::int64_t now) {
  std::erase_if(buckets_, [&](const auto& one) { return level_at(one.second, limit, now) >= limit.at_once; });
}

Rates::Left Rates::take(std::string_view who, const Limit& limit, std::int64_t now) {
  if (limit.per_second <= 0) return {};
  auto found = buckets_.find(who);
  if (found == buckets_.end()) {
    if (buckets_.size() >= most_known) forget_full(limit, now);
    if (buckets_.size() >= most_known) who = "";
    found = buckets_.try_emplace(std::string(who), Bucket{.level = limit.at_once, .at = now}).first;
  }
  Bucket& bucket = found->second;
  bucket = {.level = level_at(bucket, limit, now), .at = now};
  const bool granted = bucket.level >= 1;
  if (granted) bucket.level -= 1;
  Left left = left_of(bucket.level, limit);
  left.granted = granted;
  return left;
}

Rates::Left Rates::look(std::string_view who, const Limit& limit, std::int64_t now) const {
  if (limit.per_second <= 0) return {};
  const auto found = buckets_.find(who);
  return left_of(found == buckets_.end() ? limit.at_once : level_at(found->second, limit, now), limit);
}

}  // namespace sessiond::auth
