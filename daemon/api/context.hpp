// Shows a model's context in answers of other routes (policy/context/README.md).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "daemon/api/handler.hpp"
#include "daemon/api/transcript_source.hpp"

namespace sessiond::api {

// Holds a view as it was when `through` was the last entry: the elements of its `system` and `data`, as view=llm has
// them.
struct ViewThen {
  std::string system{}, data{};  // JSON arrays
};
using ViewQuery = std::vector<std::pair<std::string, std::string>>;
// `query`: of the GET that the view was made by. It has to name what would otherwise be taken from the entry as it is
// now: see complete_view_query. view_too_large; bad_request.
asio::awaitable<Result<ViewThen>> view_then(Api& api, const TranscriptSource& source, ViewQuery query,
                                            std::uint64_t through);
// Adds to a query, in its own spelling, what the session's entry and the configuration decide of a view: window,
// prune, maxBytes and maxMessages.
Result<std::string> complete_view_query(const Api& api, std::string query, std::string_view agent,
                                        std::string_view entry);

// GET S/messages?view=llm and ?view=summarize.
HandlerResult get_model_view(Api& api, http::Request& request);

// Adds the members `context` and `compaction` to an answer that is a Run which starts: how full the window is, and
// whether a compaction is due first. A transcript that cannot be read adds nothing.
asio::awaitable<void> add_context(Api& api, const http::Request& request, const std::string& agent,
                                  http::Response& run);

}  // namespace sessiond::api
