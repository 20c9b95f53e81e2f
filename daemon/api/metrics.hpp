// GET /metrics, in the Prometheus text format. Values are read from their owners at each scrape.
#pragma once

#include <optional>
#include <string>

#include "daemon/api/api.hpp"

namespace sessiond::api {

std::string metrics_text(const Api& api, std::vector<stream::StreamInfo> streams,
                         const std::optional<maintenance::SideSizes>& sizes);

}  // namespace sessiond::api
