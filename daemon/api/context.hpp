// Answers with the view of a session that a model is shown (policy/context/view.hpp): GET S/messages?view=llm and
// ?view=summarize.
#pragma once

#include "daemon/api/handler.hpp"

namespace sessiond::api {

HandlerResult get_model_view(Api& api, http::Request& request);

}  // namespace sessiond::api
