// The configuration as the daemon's parts take it.
#pragma once

#include "config/config.hpp"
#include "daemon/api/audit.hpp"
#include "daemon/http/server.hpp"
#include "daemon/search/search.hpp"
#include "daemon/stream/streams.hpp"

namespace sessiond::serve {

void set_up_log(const config::Config& config);
http::ServerOptions server_options(const config::Config& config);
api::AuditLog::Options audit_options(const config::Config& config);
search::SearchOptions search_options(const config::Config& config);
stream::StreamSettings stream_settings(const config::Config& config);

}  // namespace sessiond::serve
