// /metrics: how the daemon does, in the Prometheus text format. Values are read at the scrape; nothing is kept twice.
#pragma once

#include <string>

#include "daemon/api/api.hpp"

namespace sessiond {

std::string metrics_text(const Api& api, std::vector<StreamInfo> streams);

}  // namespace sessiond
