// Looks for keys and tokens in what people and agents say (policy.secretScanMessages), before the request's command is
// made, so that neither journal nor streams nor logs have what was taken out. Of a route whose body brings messages:
//   on("POST", one + "/messages", auth::Permission::append, scanned<post>, {"topic"});
// warn names them in the reply's `warnings` and in the log, redact puts "[redacted: Anthropic key]" in their places,
// reject answers 422 with their pointers. Thread: the loop; long bodies are read on a disk thread.
#pragma once

#include <vector>

#include "daemon/api/handler.hpp"
#include "policy/redaction.hpp"

namespace sessiond::api {

// Tells whether the body of a request is short and has nothing that looks like a key, or is not searched at all.
bool is_clean(const Api& api, const http::Request& request);

// Returns what is to be warned of. With redact the body is another one then. validation_failed with reject.
asio::awaitable<Result<std::vector<policy::SecretIn>>> scan_body(Api& api, http::Request& request);

// Adds {"code":"secret_in_message","pointer","kind"} for each to the warnings of a reply that is an object.
void add_warnings(http::Response& response, const std::vector<policy::SecretIn>& found);

template <HandlerResult (*call)(Api&, http::Request&)>
HandlerResult scan_and_call(Api& api, http::Request& request) {
  CO_TRY(const auto found, co_await scan_body(api, request));
  CO_TRY(auto response, co_await call(api, request));
  add_warnings(response, found);
  co_return response;
}

template <HandlerResult (*call)(Api&, http::Request&)>
HandlerResult scanned(Api& api, http::Request& request) {
  return is_clean(api, request) ? call(api, request) : scan_and_call<call>(api, request);
}

}  // namespace sessiond::api
