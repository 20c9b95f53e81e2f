// GET /metrics, in the Prometheus text format. Values are read from their owners at each scrape.
#pragma once

#include <string>

#include "daemon/api/api.hpp"

namespace sessiond::api {

std::string metrics_text(const Api& api, std::vector<stream::StreamInfo> streams);

}  // namespace sessiond::api
