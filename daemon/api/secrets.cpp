#include "daemon/api/secrets.hpp"

#include "daemon/runtime/log.hpp"
#include "policy/redaction.hpp"

namespace sessiond::api {

Result<void> check_secrets(const Api& api, const http::Request& request, std::string_view session,
                           std::string_view value, std::string_view pointer) {
  using Scan = config::Config::SecretScan;
  const Scan scan = api.config.policy.secret_scan;
  if (scan == Scan::off || value.empty()) return {};
  std::vector<Fault> faults = policy::secret_faults(value, pointer);
  if (faults.empty()) return {};
  if (scan == Scan::reject) return fail_with(std::move(faults));
  for (const Fault& fault : faults) {
    log::warn("secret_in_entry", {{"requestId", request.request_id},
                                  {"token", request.principal.id},
                                  {"session", session},
                                  {"pointer", fault.pointer},
                                  {"what", fault.detail}});
  }
  return {};
}

}  // namespace sessiond::api
