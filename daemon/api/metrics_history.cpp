#include "daemon/api/metrics_history.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <functional>
#include <utility>
#include <vector>

#include "daemon/api/api.hpp"
#include "store/clock.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::api {
namespace {

// Returns the value in seconds below which `part` of the observations lie. Within a bucket they count as evenly spread;
// those above the last bound count as that bound. Nothing: there were no observations.
template <std::size_t N>
std::optional<double> quantile(const std::array<double, N>& bounds, const std::array<std::uint64_t, N + 1>& counts,
                               double part) {
  double total = 0;
  for (const std::uint64_t count : counts) total += static_cast<double>(count);
  if (total == 0) return {};
  double below = 0;
  double floor = 0;
  for (std::size_t bucket = 0; bucket < N; ++bucket) {
    const auto count = static_cast<double>(counts.at(bucket));
    if (count > 0 && below + count >= total * part)
      return floor + (bounds.at(bucket) - floor) * (total * part - below) / count;
    below += count;
    floor = bounds.at(bucket);
  }
  return floor;
}

template <std::size_t N>
std::array<std::uint64_t, N> between(const std::array<std::uint64_t, N>& before,
                                     const std::array<std::uint64_t, N>& now) {
  std::array<std::uint64_t, N> out{};
  std::ranges::transform(now, before, out.begin(), std::minus{});
  return out;
}

std::optional<double> ms(std::optional<double> seconds) {
  return seconds ? std::optional(*seconds * 1e3) : std::nullopt;
}

std::string number(double value) { return fmt::format("{:.3f}", value); }
std::string number(std::int64_t value) { return std::to_string(value); }
std::string number(const std::optional<double>& value) { return value ? number(*value) : "null"; }

boost::asio::awaitable<MetricsReading> read_now(Api& api) {
  MetricsReading now{.moment = {.at = store::unix_ms()}, .steady_ms = store::steady_ms()};
  MetricsMoment& moment = now.moment;
  if (const http::Counters* counters = api.counters; counters != nullptr) {
    const auto get = [](const http::Counters::Count& count) { return count.load(std::memory_order_relaxed); };
    for (const auto& of_class : counters->by_class) now.requests += get(of_class);
    std::ranges::transform(counters->latency, now.latency.begin(), get);
    moment.streams = static_cast<std::int64_t>(get(counters->streams_open));
    moment.connections = static_cast<std::int64_t>(get(counters->connections_open)) + moment.streams;
  }
  const ledger::LedgerPulse pulse = ledger::pulse_of(api.ledger.parts());
  now.journal = pulse.counters;
  moment.checkpoint_lag_ms = pulse.checkpoint_lag_ms;
  moment.lock_waits = static_cast<std::int64_t>(pulse.lock_waits);
  const leases::Leases::Counters runs = api.work.claims.leases().counters();
  moment.runs_active = static_cast<std::int64_t>(runs.active);
  moment.runs_queued = static_cast<std::int64_t>(runs.queued);
  moment.oldest_run_ms = runs.oldest_queued_ms;
  if (const std::int64_t oldest = api.work.outbox.counts().oldest; oldest != 0)
    moment.oldest_delivery_ms = std::max<std::int64_t>(moment.at - oldest, 0);
  moment.stream_lag_events = static_cast<std::int64_t>(co_await api.streams.most_lag());
  co_return now;
}

}  // namespace

void MetricsHistory::take(const MetricsReading& now) {
  const std::optional<MetricsReading> before = std::exchange(last_, now);
  if (!before || now.steady_ms <= before->steady_ms) return;
  const double seconds = static_cast<double>(now.steady_ms - before->steady_ms) / 1e3;
  const auto latency = between(before->latency, now.latency);
  const auto syncs = between(before->journal.syncs, now.journal.syncs);
  const auto commits = static_cast<double>(now.journal.commits - before->journal.commits);
  const auto batches = static_cast<double>(now.journal.batches - before->journal.batches);
  Sample sample{.n = ++taken_,
                .moment = now.moment,
                .requests = static_cast<double>(now.requests - before->requests) / seconds,
                .commits = commits / seconds,
                .request_p50_ms = ms(quantile(http::Counters::bounds, latency, 0.5)),
                .request_p99_ms = ms(quantile(http::Counters::bounds, latency, 0.99)),
                .sync_p99_ms = ms(quantile(ledger::Commits::Counters::sync_bounds, syncs, 0.99))};
  if (batches > 0) {
    sample.sync_ms = static_cast<double>(now.journal.sync_ns - before->journal.sync_ns) / 1e6 / batches;
    sample.commits_per_batch = commits / batches;
  }
  samples_.push_back(std::move(sample));
  if (samples_.size() > most_samples) samples_.pop_front();
}

std::string MetricsHistory::to_json(std::int64_t after, std::int64_t started_at) const {
  std::vector<const Sample*> samples;
  for (const Sample& sample : samples_)
    if (sample.n > after) samples.push_back(&sample);
  json::ObjectWriter out;
  const auto column = [&](std::string_view name, auto value_of) {
    std::vector<std::string> values;
    for (const Sample* sample : samples) values.push_back(number(value_of(*sample)));
    out.raw(name, fmt::format("[{}]", fmt::join(values, ",")));
  };
  const auto of_sample = [&](std::string_view name, auto Sample::* member) {
    column(name, [member](const Sample& sample) { return sample.*member; });
  };
  const auto of_moment = [&](std::string_view name, auto MetricsMoment::* member) {
    column(name, [member](const Sample& sample) { return sample.moment.*member; });
  };
  out.integer("everyMs", every_ms);
  out.integer("startedAt", started_at);
  of_sample("n", &Sample::n);
  of_moment("at", &MetricsMoment::at);
  of_sample("requests", &Sample::requests);
  of_sample("commits", &Sample::commits);
  of_sample("requestP50Ms", &Sample::request_p50_ms);
  of_sample("requestP99Ms", &Sample::request_p99_ms);
  of_sample("syncMs", &Sample::sync_ms);
  of_sample("syncP99Ms", &Sample::sync_p99_ms);
  of_sample("commitsPerBatch", &Sample::commits_per_batch);
  of_moment("connections", &MetricsMoment::connections);
  of_moment("streams", &MetricsMoment::streams);
  of_moment("streamLagEvents", &MetricsMoment::stream_lag_events);
  of_moment("checkpointLagMs", &MetricsMoment::checkpoint_lag_ms);
  of_moment("lockWaits", &MetricsMoment::lock_waits);
  of_moment("runsActive", &MetricsMoment::runs_active);
  of_moment("runsQueued", &MetricsMoment::runs_queued);
  of_moment("oldestRunMs", &MetricsMoment::oldest_run_ms);
  of_moment("oldestDeliveryMs", &MetricsMoment::oldest_delivery_ms);
  return out.text();
}

boost::asio::awaitable<void> keep_metrics(Api& api) {
  boost::asio::steady_timer timer(api.ledger.parts().env.io);
  while (true) {
    api.history.take(co_await read_now(api));
    timer.expires_after(std::chrono::milliseconds(MetricsHistory::every_ms));
    co_await timer.async_wait(boost::asio::use_awaitable);
  }
}

}  // namespace sessiond::api
