// The HTTP API: one file for each resource (web/openapi.json describes them all), each of which adds its routes.
// Everything here runs on the loop's thread.
#pragma once

#include <string>

#include "config/config.hpp"
#include "daemon/api/audit.hpp"
#include "daemon/api/authenticator.hpp"
#include "daemon/api/cursor.hpp"
#include "daemon/api/held_deltas.hpp"
#include "daemon/api/metrics_history.hpp"
#include "daemon/api/run_signatures.hpp"
#include "daemon/api/transcript_names.hpp"
#include "daemon/auth/tickets.hpp"
#include "daemon/auth/tokens.hpp"
#include "daemon/http/options.hpp"
#include "daemon/http/router.hpp"
#include "daemon/leases/work.hpp"
#include "daemon/ledger/ledger.hpp"
#include "daemon/maintenance/blobs.hpp"
#include "daemon/maintenance/side_stores.hpp"
#include "daemon/maintenance/stock.hpp"
#include "daemon/search/search.hpp"
#include "daemon/stream/streams.hpp"

namespace sessiond::api {

// The parts of the daemon that handlers use. It lives as long as the daemon listens.
struct Api {
  const config::Config& config;
  ledger::Ledger& ledger;
  auth::Tokens& tokens;
  stream::Streams& streams;
  leases::Work& work;
  maintenance::Blobs& blobs;
  search::Search& search;
  auth::Tickets& tickets;
  Authenticator& authenticator;
  AuditLog& audit;
  const http::Counters* counters = nullptr;  // the server's; set before it listens
  bool draining = false;
  bool policy_is_changing = false;  // a PUT is writing policy.json at the moment
  const CursorSeal cursors;
  std::int64_t started_at = 0;  // ms since the epoch
  TranscriptNames transcript_names{};
  HeldDeltas held_deltas{};
  MetricsHistory history{};
  RunSignatures run_signatures{};
  maintenance::SideStores side_stores{ledger};
};

void add_health_routes(http::Router& router, Api& api);       // healthz, readyz, metrics, version, openapi.json
void add_dashboard_routes(http::Router& router, Api& api);    // the page at /, /assets/{name}
void add_agent_routes(http::Router& router, Api& api);        // agents
void add_list_routes(http::Router& router, Api& api);         // lists of sessions
void add_session_routes(http::Router& router, Api& api);      // one session
void add_archive_routes(http::Router& router, Api& api);      // lists of archived transcripts
void add_last_routes(http::Router& router, Api& api);         // the last session, resume
void add_fork_routes(http::Router& router, Api& api);         // fork, replace a transcript
void add_lifecycle_routes(http::Router& router, Api& api);    // resets, restores
void add_session_log_routes(http::Router& router, Api& api);  // the log of a session, replay of a run
void add_message_routes(http::Router& router, Api& api);      // messages and transcripts
void add_snapshot_routes(http::Router& router, Api& api);     // large fields of entries
void add_blob_routes(http::Router& router, Api& api);         // media by their hash
void add_context_routes(http::Router& router, Api& api);      // what a model is shown
void add_export_routes(http::Router& router, Api& api);       // sessions as documents
void add_import_routes(http::Router& router, Api& api);       // sessions of other programs
void add_inbound_routes(http::Router& router, Api& api);      // what people say and do on chat platforms
void add_bridge_routes(http::Router& router, Api& api);       // outbound
void add_takeover_routes(http::Router& router, Api& api);
void add_run_routes(http::Router& router, Api& api);       // runs
void add_run_work_routes(http::Router& router, Api& api);  // what runners tell of a run
void add_runner_routes(http::Router& router, Api& api);    // runners, the model of a run
void add_approval_routes(http::Router& router, Api& api);  // approvals of tools
void add_hook_routes(http::Router& router, Api& api);      // hooks, calls of them, shutdown of a session
void add_delivery_routes(http::Router& router, Api& api);  // deliveries
void add_policy_routes(http::Router& router, Api& api);    // send policy
void add_event_routes(http::Router& router, Api& api);     // SSE
void add_ticket_routes(http::Router& router, Api& api);    // tickets for SSE
void add_admin_routes(http::Router& router, Api& api);  // whoami, tokens, checkpoint, config, backup, doctor, audit log
void add_maintenance_routes(http::Router& router, Api& api);  // limits of session.maintenance, orphans
void add_lock_routes(http::Router& router, Api& api);         // locks shared with foreign programs
void add_schema_routes(http::Router& router, Api& api);       // JSON Schemas
void add_search_routes(http::Router& router, Api& api);       // what was said
void add_mcp_routes(http::Router& router, Api& api);          // the Model Context Protocol
void add_login_routes(http::Router& router, Api& api);        // login and logout of browsers

// The sessions that a stream is about.
asio::awaitable<decide::Streamed> streamed_sessions(Api& api);

void add_routes(http::Router& router, Api& api);  // all of them

}  // namespace sessiond::api
