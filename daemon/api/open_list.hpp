// Lists of what is open in any session that the token sees: approvals, runs.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/api/handler.hpp"

namespace sessiond::api {

struct OpenItem {
  std::int64_t since = 0;               // ms since the epoch
  std::string_view id{};                // orders those of one millisecond
  std::function<std::string()> json{};  // asked of the items that are shown, while the state is as it was
};
using AddOpen = std::function<void(OpenItem)>;

// Answers with what `find` adds of the sessions at `places` (agent and key), the oldest first, at most 1000. The query
// may name an `agent` and a `channel`.
HandlerResult list_open(
    Api& api, http::Request& request, std::set<std::pair<std::string, std::string>> places,
    std::function<void(const decide::AgentState&, const decide::Session&, const decide::SessionRuns&, const AddOpen&)>
        find);

}  // namespace sessiond::api
