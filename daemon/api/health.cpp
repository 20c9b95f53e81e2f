// Health, readiness, version, metrics, and openapi.json.
#include <fmt/format.h>

#include "daemon/api/assets.hpp"
#include "daemon/api/handler.hpp"
#include "daemon/api/metrics.hpp"
#include "store/files.hpp"
#include "store/names.hpp"

namespace sessiond::api {
namespace {

constexpr std::int64_t lag_warning_ms = 60'000;  // with a checkpoint lag above this the daemon is unready

HandlerResult healthz(Api&, http::Request&) { co_return json_response(R"({"status":"ok"})"); }

HandlerResult version(Api& api, http::Request&) {
  co_return json_response(fmt::format(R"({{"name":"sessiond","version":"{}","api":"v1","epoch":"{}"}})",
                                      SESSIOND_VERSION, api.ledger.parts().commits.journal().epoch()));
}

// /readyz is open to all, but only a token that sees everything is told the names of agents and files.
bool may_read_details(Api& api, const http::Request& request) {
  const auto who = api.authenticator.authenticate(request, auth::Permission::open);
  return who && who->sees_everything();
}

// The progress of the check that reads the whole journal after a start; null when it is done.
std::string journal_check_json(const journal::JournalCheck& check) {
  if (check.done()) return "null";
  return fmt::format(R"({{"segments":{},"ofSegments":{},"bytes":{},"ofBytes":{}}})", check.segments, check.of_segments,
                     check.bytes, check.of_bytes);
}

// Says which transcripts are not there, of those that were missing at the last look at their agents. Blocks.
std::vector<std::string> still_missing(const std::vector<ledger::MissingTranscript>& missing) {
  std::vector<std::string> out;
  for (const ledger::MissingTranscript& one : missing) {
    if (store::stat_of(one.path)) continue;
    const std::string what =
        one.topic ? fmt::format("session {} had entries in its {}", one.key, store::describe_topic(*one.topic))
                  : fmt::format("session {} has {} messages", one.key, one.messages);
    out.push_back(
        fmt::format("{} is missing: {}. Put the file back; without it they are lost, and new {} get seqs from 0",
                    one.path.native(), what, one.topic ? "entries" : "messages"));
  }
  return out;
}

// How the index of the search is; null: there is none. It makes nothing unready: searches answer with what it has.
std::string search_json(const Api& api) {
  const search::SearchStatus status = api.search.status();
  if (!status.enabled) return "null";
  json::ObjectWriter writer;
  writer.string("state", !status.problem.empty() ? "behind" : status.whole && status.caught_up ? "ready" : "reading");
  if (!status.problem.empty()) writer.string("error", status.problem);
  const std::uint64_t durable = api.ledger.parts().commits.durable();
  writer.integer("lagEvents", static_cast<std::int64_t>(durable - std::min(durable, status.position)));
  writer.integer("rows", static_cast<std::int64_t>(status.rows));
  writer.integer("bytes", static_cast<std::int64_t>(status.bytes));
  writer.integer("rebuilds", static_cast<std::int64_t>(status.rebuilds));
  return writer.text();
}

// 200 when the daemon takes writes and its files keep up with the journal; else 503 with all reasons. Repairs are
// listed, but do not make the daemon unready.
HandlerResult readyz(Api& api, http::Request& request) {
  const ledger::LedgerStatus status = ledger::status_of(api.ledger.parts());
  const bool details = may_read_details(api, request);
  std::vector<std::string> reasons;
  if (api.draining) reasons.emplace_back("shutting down");
  if (!status.refusal.empty()) reasons.push_back(details ? "not writable: " + status.refusal : "not writable");
  for (const std::string& lagging : status.lagging) {
    reasons.push_back(details ? "checkpoint fails: " + lagging : "checkpoint fails");
    if (!details) break;
  }
  for (const std::string& file : status.recovering) {
    reasons.push_back(details ? fmt::format("recovery waits for the lock of {}", file) : "recovery waits for a lock");
    if (!details) break;
  }
  for (const std::string& why : status.logs) {
    reasons.push_back(details ? "a session log cannot be written: " + why : "a session log cannot be written");
    if (!details) break;
  }
  if (const std::string& trouble = api.audit.trouble(); !trouble.empty())
    reasons.push_back(details ? "audit log cannot be written: " + trouble : "audit log cannot be written");
  if (status.checkpoint_lag_ms > lag_warning_ms)
    reasons.push_back(fmt::format("checkpoint is {} ms behind", status.checkpoint_lag_ms));
  std::vector<std::string> degraded = status.degraded;
  if (details && !status.missing.empty())
    std::ranges::move(co_await on_disk(api, [&status] { return still_missing(status.missing); }),
                      std::back_inserter(degraded));
  json::ObjectWriter writer;
  writer.string("status", reasons.empty() ? "ready" : "unready");
  writer.raw("reasons", json::array_of(reasons));
  writer.integer("checkpointLagMs", status.checkpoint_lag_ms);
  writer.raw("journalCheck", journal_check_json(status.journal_check));
  writer.boolean("idempotencyTruncated", status.answers_truncated);
  if (details) {  // left out for others: an empty list would say that there is nothing
    writer.raw("repairs", json::array_of(status.repairs));
    writer.integer("failedDeliveries", static_cast<std::int64_t>(api.work.outbox.counts().failed));
    writer.raw("damage", json::array_of(status.damage));
    writer.raw("degraded", json::array_of(degraded));
    writer.raw("loading", json::array_of(status.loading));
    const auto sizes = api.side_stores.sizes();
    writer.raw("unindexed", sizes ? json::array_of(sizes->unindexed) : "null");
    writer.raw("search", search_json(api));
    writer.raw("unwatched", status.unwatched.empty() ? "null" : json::quote(status.unwatched));
  }
  writer.string("asOf", api.ledger.as_of(0));
  co_return json_response(writer.text(), reasons.empty() ? 200 : 503);
}

HandlerResult metrics(Api& api, http::Request& request) {
  CO_TRY(require_full_scope(request, "read metrics, which count everything"));
  http::Response response = json_response(metrics_text(api, co_await api.streams.list(), api.side_stores.sizes()));
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  co_return response;
}

HandlerResult metrics_history(Api& api, http::Request& request) {
  CO_TRY(require_full_scope(request, "read metrics, which count everything"));
  CO_TRY(const auto after, query_int(request, "after", 0, INT64_MAX));
  co_return json_response(api.history.to_json(after.value_or(0), api.started_at));
}

HandlerResult openapi(Api&, http::Request&) {
  http::Response response;
  response.fixed = assets::openapi;
  co_return response;
}

}  // namespace

void add_health_routes(http::Router& router, Api& api) {
  const auto on = adding(router, api);
  on("GET", "/healthz", auth::Permission::open, healthz, http::any_query);
  on("GET", "/readyz", auth::Permission::open, readyz, http::any_query);
  on("GET", "/version", auth::Permission::open, version);
  on("GET", "/openapi.json", auth::Permission::open, openapi);
  on("GET", "/metrics", auth::Permission::metrics, metrics, http::any_query);
  on("GET", "/v1/metrics/history", auth::Permission::metrics, metrics_history, {"after"});
}

}  // namespace sessiond::api
