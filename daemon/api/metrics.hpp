// GET /metrics, in the Prometheus text format. Values are read from their owners at each scrape.
#pragma once

#include <string>

#include "daemon/api/api.hpp"

namespace sessiond {

std::string metrics_text(const Api& api, std::vector<StreamInfo> streams);

}  // namespace sessiond
