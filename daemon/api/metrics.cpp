#include "daemon/api/metrics.hpp"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

#include "store/clock.hpp"

namespace sessiond::api {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

class Families {
 public:
  void one(std::string name, std::string help, MetricType type, double value) {
    ClientMetric metric;
    if (type == MetricType::Counter) {
      metric.counter.value = value;
    } else {
      metric.gauge.value = value;
    }
    all.push_back({std::move(name), std::move(help), type, {std::move(metric)}});
  }
  void counter(std::string name, std::string help, std::uint64_t value) {
    one(std::move(name), std::move(help), MetricType::Counter, static_cast<double>(value));
  }
  void gauge(std::string name, std::string help, double value) {
    one(std::move(name), std::move(help), MetricType::Gauge, value);
  }

  // `counts`: one more than bounds, of each bucket alone.
  void histogram(std::string name, std::string help, const auto& bounds, const auto& counts, double seconds) {
    ClientMetric metric;
    std::uint64_t sum = 0;
    for (std::size_t index = 0; index < counts.size(); ++index) {
      sum += static_cast<std::uint64_t>(counts.at(index));
      const double bound = index < bounds.size() ? bounds.at(index) : std::numeric_limits<double>::infinity();
      metric.histogram.bucket.push_back({sum, bound});
    }
    metric.histogram.sample_count = sum;
    metric.histogram.sample_sum = seconds;
    all.push_back({std::move(name), std::move(help), MetricType::Histogram, {std::move(metric)}});
  }

  std::vector<MetricFamily> all;
};

void add_http(Families& families, const http::Counters& counters, std::uint64_t stream_bytes) {
  const auto get = [](const http::Counters::Count& count) { return count.load(std::memory_order_relaxed); };
  families.gauge("sessiond_connections", "Open connections, streams included.",
                 static_cast<double>(get(counters.connections_open) + get(counters.streams_open)));
  families.counter("sessiond_connections_total", "Connections accepted.", get(counters.connections_total));
  families.counter("sessiond_connections_refused_total", "Connections refused over limits.connections.",
                   get(counters.connections_refused));
  families.gauge("sessiond_streams", "Open event streams.", static_cast<double>(get(counters.streams_open)));
  families.counter("sessiond_received_bytes_total", "Bytes read from clients.", get(counters.bytes_in));
  families.counter("sessiond_sent_bytes_total", "Bytes written to clients, streams included.",
                   get(counters.bytes_out) + stream_bytes);
  MetricFamily requests{"sessiond_requests_total", "Requests answered, by class of status.", MetricType::Counter, {}};
  for (std::size_t klass = 1; klass < counters.by_class.size(); ++klass) {
    ClientMetric metric;
    metric.label = {{"status", std::to_string(klass) + "xx"}};
    metric.counter.value = static_cast<double>(get(counters.by_class.at(klass)));
    requests.metric.push_back(std::move(metric));
  }
  families.all.push_back(std::move(requests));
  families.histogram("sessiond_request_seconds", "From a request's last byte to its reply's first.",
                     http::Counters::bounds, counters.latency, static_cast<double>(get(counters.latency_ns)) / 1e9);
}

void add_ledger(Families& families, const ledger::LedgerStatus& status) {
  families.counter("sessiond_commits_total", "Commits accepted.", status.counters.commits);
  families.counter("sessiond_journal_batches_total", "Batches made durable.", status.counters.batches);
  families.counter("sessiond_journal_bytes_total", "Bytes of batches made durable.", status.counters.batch_bytes);
  families.one("sessiond_journal_sync_seconds_total", "Time in write and fdatasync.", MetricType::Counter,
               static_cast<double>(status.counters.sync_ns) / 1e9);
  families.histogram("sessiond_journal_sync_seconds", "Write and fdatasync of a batch.",
                     ledger::Commits::Counters::sync_bounds, status.counters.syncs,
                     static_cast<double>(status.counters.sync_ns) / 1e9);
  families.gauge("sessiond_journal_head", "Newest seq decided.", static_cast<double>(status.head));
  families.gauge("sessiond_journal_durable", "Newest seq on disk.", static_cast<double>(status.durable));
  families.gauge("sessiond_journal_oldest", "Oldest seq kept for replay.", static_cast<double>(status.oldest));
  families.gauge("sessiond_writable", "1 when commits are accepted.", status.refusal.empty() ? 1 : 0);
  families.counter("sessiond_checkpoints_total", "Times that a sessions.json was replaced.", status.checkpoints);
  families.gauge("sessiond_checkpoint_lag_seconds", "Age of the oldest change that is not in its sessions.json.",
                 static_cast<double>(status.checkpoint_lag_ms) / 1e3);
  families.gauge("sessiond_checkpoints_failing", "Agents whose checkpoint fails.",
                 static_cast<double>(status.lagging.size()));
  families.counter("sessiond_lock_evictions_total", "Stale locks removed.", status.evictions);
  families.gauge("sessiond_session_logs_unwritable", "Logs of sessions whose lines wait, since they cannot be written.",
                 static_cast<double>(status.logs.size()));
  families.gauge("sessiond_lock_waits", "Files that wait for a foreign lock.", static_cast<double>(status.lock_waits));
  families.gauge("sessiond_repairs", "Repairs since the start.", static_cast<double>(status.repairs.size()));
  families.gauge("sessiond_agents", "Agents in memory.", static_cast<double>(status.agents));
}

// Adds lag metrics for the hundred streams that are furthest behind.
void add_streams(Families& families, const stream::StreamCounters& counters, std::vector<stream::StreamInfo> streams) {
  families.counter("sessiond_streams_stalled_total", "Streams closed because their client read nothing.",
                   counters.stalled);
  families.counter("sessiond_stream_gaps_total", "Gaps reported to stream clients.", counters.gaps);
  families.counter("sessiond_stream_dropped_total", "Ephemeral events dropped because a client had no room for them.",
                   counters.dropped);
  constexpr std::size_t most = 100;
  std::erase_if(streams,
                [](const stream::StreamInfo& stream) { return stream.lag_events == 0 || stream.state == "live"; });
  std::ranges::sort(streams, std::ranges::greater{}, &stream::StreamInfo::lag_events);
  MetricFamily events{"sessiond_stream_lag_events", "How far a stream is behind.", MetricType::Gauge, {}};
  MetricFamily bytes{
      "sessiond_stream_lag_bytes", "How far a stream is behind, in bytes of journal.", MetricType::Gauge, {}};
  for (std::size_t index = 0; index < std::min(most, streams.size()); ++index) {
    const stream::StreamInfo& stream = streams[index];
    ClientMetric metric;
    metric.label = {{"stream", std::to_string(stream.id)}, {"token", stream.token}, {"peer", stream.peer}};
    metric.gauge.value = static_cast<double>(stream.lag_events);
    events.metric.push_back(metric);
    metric.gauge.value = static_cast<double>(stream.lag_bytes);
    bytes.metric.push_back(std::move(metric));
  }
  families.all.push_back(std::move(events));
  families.all.push_back(std::move(bytes));
}

void add_runs(Families& families, const leases::Leases::Counters& runs, std::size_t waiting) {
  families.gauge("sessiond_runs_active", "Runs that a runner has.", static_cast<double>(runs.active));
  families.gauge("sessiond_runs_queued", "Runs that wait for a runner.", static_cast<double>(runs.queued));
  families.gauge("sessiond_runs_oldest_queued_seconds", "How long the oldest waiting run has waited.",
                 static_cast<double>(runs.oldest_queued_ms) / 1e3);
  families.gauge("sessiond_runs_claims_waiting", "Claims that wait for a run.", static_cast<double>(waiting));
  families.counter("sessiond_run_leases_lost_total", "Leases that ended before their run.", runs.lost);
  MetricFamily ended{"sessiond_runs_ended_total", "Runs that ended, by status.", MetricType::Counter, {}};
  for (std::size_t index = static_cast<std::size_t>(decide::RunStatus::done); index < runs.ended.size(); ++index) {
    ClientMetric metric;
    metric.label = {{"status", std::string(decide::name(static_cast<decide::RunStatus>(index)))}};
    metric.counter.value = static_cast<double>(runs.ended.at(index));
    ended.metric.push_back(std::move(metric));
  }
  families.all.push_back(std::move(ended));
}

void add_deliveries(Families& families, const decide::DeliveryBook::Counts& counts) {
  MetricFamily deliveries{"sessiond_deliveries",
                          "Deliveries that are not sent, by status. Failed: given up, and nobody has looked at it yet.",
                          MetricType::Gauge,
                          {}};
  const auto add = [&deliveries](const char* status, std::size_t count) {
    ClientMetric metric;
    metric.label = {{"status", status}};
    metric.gauge.value = static_cast<double>(count);
    deliveries.metric.push_back(std::move(metric));
  };
  add("pending", counts.pending);
  add("leased", counts.leased);
  add("failed", counts.failed);
  families.all.push_back(std::move(deliveries));
  const std::int64_t age = counts.oldest == 0 ? 0 : std::max<std::int64_t>(store::unix_ms() - counts.oldest, 0);
  families.gauge("sessiond_delivery_oldest_seconds", "Age of the oldest delivery that is not sent.",
                 static_cast<double>(age) / 1e3);
}

void add_side_sizes(Families& families, const maintenance::SideSizes& sizes) {
  families.gauge("sessiond_session_logs", "Logs of sessions on disk.", static_cast<double>(sizes.logs.count));
  families.gauge("sessiond_session_log_bytes", "Bytes of all logs of sessions.", static_cast<double>(sizes.logs.bytes));
  families.gauge("sessiond_session_streams", "Streams of sessions on disk, with archived ones.",
                 static_cast<double>(sizes.streams.count));
  families.gauge("sessiond_session_stream_bytes", "Bytes of all streams of sessions, with archived ones.",
                 static_cast<double>(sizes.streams.bytes));
}

// Adds what sessions keep beside their transcripts, and what that may take.
void add_content(Families& families, const Api& api, const std::optional<maintenance::SideSizes>& sizes) {
  const blobs::BlobTotals blobs = api.blobs.store().totals();
  families.gauge("sessiond_blobs", "Blobs on disk.", static_cast<double>(blobs.count));
  families.gauge("sessiond_blob_bytes", "Bytes of all blobs.", static_cast<double>(blobs.bytes));
  families.gauge("sessiond_blob_bytes_max", "Bytes that all blobs may have (blobs.maxBytes).",
                 static_cast<double>(api.config.content.blobs.max_bytes));
  families.counter("sessiond_blobs_removed_total", "Blobs that no session named and that were removed.",
                   api.blobs.swept());
  families.gauge("sessiond_session_log_bytes_max", "Bytes that one log of a session may have (limits.logBytes).",
                 static_cast<double>(api.config.limits.log_bytes));
  families.gauge("sessiond_session_stream_bytes_max",
                 "Bytes that one stream of a session may have (limits.streamBytes).",
                 static_cast<double>(api.config.limits.stream_bytes));
  if (sizes) add_side_sizes(families, *sizes);
}

void add_search(Families& families, const search::Search& search, std::uint64_t durable) {
  const search::SearchStatus status = search.status();
  if (!status.enabled) return;
  families.gauge("sessiond_search_lag_events", "Events that the index of the search does not have yet.",
                 static_cast<double>(durable - std::min(durable, status.position)));
  families.gauge("sessiond_search_rows", "Texts in the index.", static_cast<double>(status.rows));
  families.gauge("sessiond_search_bytes", "Bytes of the index.", static_cast<double>(status.bytes));
  if (const auto most = search.options().max_bytes)
    families.gauge("sessiond_search_bytes_max", "Bytes that the index may have (search.maxBytes).",
                   static_cast<double>(*most));
  families.gauge("sessiond_search_whole", "1 when every transcript was read into the index.", status.whole ? 1 : 0);
  families.gauge("sessiond_search_working", "1 when the index can be written.", status.problem.empty() ? 1 : 0);
  families.counter("sessiond_search_rebuilds_total", "Times that the index was made anew.", status.rebuilds);
}

}  // namespace

std::string metrics_text(const Api& api, std::vector<stream::StreamInfo> streams,
                         const std::optional<maintenance::SideSizes>& sizes) {
  Families families;
  add_ledger(families, ledger::status_of(api.ledger.parts()));
  if (api.counters != nullptr) add_http(families, *api.counters, api.streams.counters().bytes);
  add_runs(families, api.work.claims.leases().counters(), api.work.claims.waiting());
  families.gauge("sessiond_approvals_open", "Tools that runs wait to be allowed.",
                 static_cast<double>(api.work.approvals.open()));
  families.gauge("sessiond_takeovers", "Sessions in which a person speaks in place of the agent.",
                 static_cast<double>(api.work.takeovers.size()));
  add_content(families, api, sizes);
  add_streams(families, api.streams.counters(), std::move(streams));
  add_deliveries(families, api.work.outbox.counts());
  add_search(families, api.search, api.ledger.parts().commits.durable());
  families.gauge("sessiond_start_time_seconds", "When the daemon started, seconds since the epoch.",
                 static_cast<double>(api.started_at) / 1e3);
  return prometheus::TextSerializer().Serialize(families.all);
}

}  // namespace sessiond::api
