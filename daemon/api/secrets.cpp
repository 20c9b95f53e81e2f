#include "daemon/api/secrets.hpp"

#include "daemon/api/handler.hpp"
#include "daemon/runtime/log.hpp"
#include "policy/redaction.hpp"

namespace sessiond::api {

asio::awaitable<Result<void>> check_secrets(const Api& api, const http::Request& request, std::string_view session,
                                            std::string_view value, std::string_view pointer) {
  using Scan = config::Config::SecretScan;
  const Scan scan = api.config.policy.secret_scan;
  if (scan == Scan::off || value.empty()) co_return Result<void>{};
  const auto scan_now = [value, pointer] { return policy::secret_faults(value, pointer); };
  std::vector<Fault> faults = value.size() > limits::checked_here ? co_await on_disk(api, scan_now) : scan_now();
  if (faults.empty()) co_return Result<void>{};
  if (scan == Scan::reject) co_return fail_with(std::move(faults));
  for (const Fault& fault : faults) {
    log::warn("secret_in_entry", {{"requestId", request.request_id},
                                  {"token", request.principal.id},
                                  {"session", session},
                                  {"pointer", fault.pointer},
                                  {"what", fault.detail}});
  }
  co_return Result<void>{};
}

}  // namespace sessiond::api
