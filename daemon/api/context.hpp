// Shows a model's context in answers of other routes (policy/context/README.md).
#pragma once

#include "daemon/api/handler.hpp"

namespace sessiond::api {

// GET S/messages?view=llm and ?view=summarize.
HandlerResult get_model_view(Api& api, http::Request& request);

// Adds the members `context` and `compaction` to an answer that is a Run which starts: how full the window is, and
// whether a compaction is due first. A transcript that cannot be read adds nothing.
asio::awaitable<void> add_context(Api& api, const http::Request& request, const std::string& agent,
                                  http::Response& run);

}  // namespace sessiond::api
