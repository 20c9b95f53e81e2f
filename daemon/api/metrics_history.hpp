// How the daemon was in the last hour, a sample each five seconds, for charts of somebody who comes after something has
// happened. It is kept in memory: a restart begins it anew. Thread: the loop.
#pragma once

#include <array>
#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "daemon/http/options.hpp"
#include "daemon/ledger/commits.hpp"

namespace sessiond::api {

struct Api;

// How things stand at one moment.
struct MetricsMoment {
  std::int64_t at = 0;  // unix ms
  std::int64_t connections = 0, streams = 0;
  std::int64_t stream_lag_events = 0;  // of the stream that is furthest behind
  std::int64_t checkpoint_lag_ms = 0;
  std::int64_t lock_waits = 0;  // files that wait for another program's lock
  std::int64_t runs_active = 0, runs_queued = 0;
  std::int64_t oldest_run_ms = 0, oldest_delivery_ms = 0;  // how long it has waited; 0: none waits
};

// A moment, with what was counted from the start of the daemon until then.
struct MetricsReading {
  MetricsMoment moment{};
  std::int64_t steady_ms = 0;  // of a clock that does not step
  std::uint64_t requests = 0;
  std::array<std::uint64_t, http::Counters::bounds.size() + 1> latency{};  // requests in each bucket
  ledger::Commits::Counters journal{};
};

class MetricsHistory {
 public:
  static constexpr std::int64_t every_ms = 5'000;
  static constexpr std::size_t most_samples = 3'600'000 / every_ms;

  // Takes what happened since the last reading as the newest sample. The first reading makes none.
  void take(const MetricsReading& now);
  // Returns the samples whose number is greater than `after`, in the order in which they were taken, as an object of
  // JSON: one array for each value, all of one length. `n` are their numbers, from 1. null stands where nothing was
  // observed, such as the latency of no request. `started_at`: of the daemon, unix ms.
  std::string to_json(std::int64_t after, std::int64_t started_at) const;

 private:
  struct Sample {
    std::int64_t n = 0;
    MetricsMoment moment{};
    double requests = 0, commits = 0;  // a second
    std::optional<double> request_p50_ms{}, request_p99_ms{}, sync_ms{}, sync_p99_ms{}, commits_per_batch{};
  };
  std::optional<MetricsReading> last_{};
  std::int64_t taken_ = 0;  // samples so far
  std::deque<Sample> samples_{};
};

// Takes readings as long as the daemon runs. Never returns.
boost::asio::awaitable<void> keep_metrics(Api& api);

}  // namespace sessiond::api
