// The configuration as the daemon's parts take it.
#pragma once

#include "config/config.hpp"
#include "daemon/api/audit.hpp"
#include "daemon/http/server.hpp"
#include "daemon/stream/streams.hpp"

namespace sessiond {

void set_up_log(const Config& config);
ServerOptions server_options(const Config& config);
AuditLog::Options audit_options(const Config& config);
StreamSettings stream_settings(const Config& config);

}  // namespace sessiond
