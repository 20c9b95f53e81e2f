#include "daemon/api/metrics_history.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "store/json/raw_json.hpp"

namespace {

using sessiond::api::MetricsHistory;
using sessiond::api::MetricsReading;
namespace json = sessiond::json;

// The column `name` of the samples after the one with a number, as JSON.
std::string column(const MetricsHistory& history, const char* name, std::int64_t after = 0) {
  const std::string columns = history.to_json(after, 7);
  return std::string(json::find(columns, name).value_or("none"));
}

MetricsReading reading(std::int64_t second) {
  return {.moment = {.at = 1'000'000 + second * 1'000}, .steady_ms = 500 + second * 1'000};
}

TEST_CASE("a sample is what happened between two readings, a second") {
  MetricsHistory history;
  MetricsReading first = reading(0);
  first.requests = 1'000;
  first.journal.commits = 50;
  history.take(first);
  CHECK(column(history, "at") == "[]");
  MetricsReading second = reading(5);
  second.requests = 1'010;
  second.latency[1] = 8;  // 0.5 to 1 ms
  second.latency[3] = 2;  // 2.5 to 5 ms
  second.journal.commits = 80;
  second.journal.batches = 10;
  second.journal.sync_ns = 20'000'000;
  second.journal.syncs[4] = 10;  // 1 to 2.5 ms
  second.moment.connections = 3;
  history.take(second);
  CHECK(column(history, "at") == "[1005000]");
  CHECK(column(history, "requests") == "[2.000]");
  CHECK(column(history, "commits") == "[6.000]");
  CHECK(column(history, "requestP50Ms") == "[0.813]");
  CHECK(column(history, "requestP99Ms") == "[4.875]");
  CHECK(column(history, "syncMs") == "[2.000]");
  CHECK(column(history, "commitsPerBatch") == "[3.000]");
  CHECK(column(history, "connections") == "[3]");
}

TEST_CASE("where nothing was observed a sample has null, and above the last bound it has the last bound") {
  MetricsHistory history;
  history.take(reading(0));
  history.take(reading(5));
  CHECK(column(history, "requests") == "[0.000]");
  for (const char* name : {"requestP50Ms", "requestP99Ms", "syncMs", "syncP99Ms", "commitsPerBatch"})
    CHECK_MESSAGE(column(history, name) == "[null]", name);
  MetricsReading slow = reading(10);
  slow.latency.back() = 1;
  history.take(slow);
  CHECK(column(history, "requestP50Ms") == "[null,10000.000]");
}

TEST_CASE("an hour is kept, and a client is given only what it does not have") {
  MetricsHistory history;
  for (std::int64_t second = 0; second <= 4'000; second += 5) history.take(reading(second));
  const std::string times = column(history, "at");
  CHECK(std::ranges::distance(json::elements(times)) == MetricsHistory::most_samples);
  CHECK(column(history, "at", 798) == "[4995000,5000000]");
  CHECK(column(history, "n", 798) == "[799,800]");
}

TEST_CASE("a wall clock that steps back makes no sample of another length") {
  MetricsHistory history;
  history.take(reading(0));
  MetricsReading stepped = reading(5);
  stepped.moment.at = 10;
  stepped.requests = 10;
  history.take(stepped);
  CHECK(column(history, "requests") == "[2.000]");
  history.take(reading(10));
  CHECK(column(history, "n", 1) == "[2]");
}

}  // namespace
