// Makes the body of every error reply (RFC 9457).
#include <algorithm>
#include <array>
#include <span>
#include <string>

#include "daemon/http/message.hpp"
#include "policy/secret_scan.hpp"
#include "store/json/raw_json.hpp"
#include "store/limits.hpp"

namespace sessiond::http {
namespace {

// In the order of the codes.
constexpr auto statuses = [] {
  using enum Code;
  return std::to_array<std::pair<Code, int>>({
      {bad_request, 400},
      {bad_cursor, 400},
      {unauthorized, 401},
      {forbidden, 403},
      {policy_denied, 403},
      {not_found, 404},
      {agent_not_found, 404},
      {session_not_found, 404},
      {message_not_found, 404},
      {run_not_found, 404},
      {approval_not_found, 404},
      {hook_not_found, 404},
      {delivery_not_found, 404},
      {method_not_allowed, 405},
      {not_acceptable, 406},
      {request_timeout, 408},
      {session_exists, 409},
      {session_archived, 409},
      {session_reset, 409},
      {session_busy, 409},
      {taken_over, 409},
      {sdk_session_taken, 409},
      {nothing_to_compact, 409},
      {session_log_off, 409},
      {lease_lost, 409},
      {out_of_order, 409},
      {run_exists, 409},
      {hook_exists, 409},
      {turn_limit, 409},
      {cost_limit, 409},
      {queue_full, 409},
      {agent_bound, 409},
      {entry_id_conflict, 409},
      {idempotency_in_flight, 409},
      {precondition_failed, 412},
      {content_too_large, 413},
      {uri_too_long, 414},
      {unsupported_media_type, 415},
      {range_not_satisfiable, 416},
      {misdirected_host, 421},
      {validation_failed, 422},
      {idempotency_key_reused, 422},
      {reserved_name, 422},
      {invalid_id, 422},
      {agent_mismatch, 422},
      {unmatched_tool_call, 422},
      {unmatched_tool_result, 422},
      {hook_blocked, 422},
      {view_too_large, 422},
      {precondition_required, 428},
      {too_many_requests, 429},
      {header_fields_too_large, 431},
      {internal, 500},
      {lock_timeout, 503},
      {draining, 503},
      {starting, 503},
      {outcome_unknown, 503},
      {degraded, 503},
      {storage_full, 507},
  });
}();
static_assert(statuses.size() == static_cast<std::size_t>(Code::storage_full) + 1);
static_assert(std::ranges::adjacent_find(statuses, std::ranges::greater_equal{}, &std::pair<Code, int>::first) ==
              statuses.end());

// Says whether the same request may succeed when it is sent again later.
bool retryable(Code code, int status) {
  return code == Code::idempotency_in_flight || status == 408 || status == 429 || status == 503 || status == 507;
}

// These replies always have a Retry-After: one second unless the problem says otherwise.
bool wants_retry_after(Code code, int status) {
  return code == Code::idempotency_in_flight || status == 429 || status == 503;
}

std::string title_of(Code code) {
  if (code == Code::internal) return "Internal server error";
  std::string title(name(code));
  std::ranges::replace(title, '_', ' ');
  title[0] = static_cast<char>(title[0] - 'a' + 'A');
  return title;
}

// Returns the first `most` bytes of a text, without secrets. Looks for secrets in twice as much: one that is cut in
// half would not be recognised.
std::string told(std::string_view text, std::size_t most) {
  std::string out = policy::without_secrets(text.substr(0, 2 * most));
  if (out.size() <= most) return out;
  while (most > 0 && (static_cast<unsigned char>(out[most]) & 0xC0) == 0x80) --most;  // never half a character
  out.resize(most);
  return out + "…";
}

std::string errors_array(const std::vector<Fault>& faults) {
  std::string out = "[";
  for (const Fault& fault : std::span(faults).first(std::min(faults.size(), limits::faults))) {
    if (out.size() > 1) out += ',';
    json::ObjectWriter writer(out);
    writer.string("pointer", told(fault.pointer, limits::fault_bytes));
    writer.string("detail", told(fault.detail, limits::fault_bytes));
    writer.close();
  }
  out += ']';
  return out;
}

}  // namespace

int status_of(Code code) { return statuses.at(static_cast<std::size_t>(code)).second; }

Response to_response(const Problem& problem, std::string_view path, std::string_view request_id) {
  const int status = status_of(problem.code);
  Response response;
  response.status = status;
  response.content_type = "application/problem+json";
  json::ObjectWriter writer(response.body);
  writer.string("type", "urn:sessiond:problem:" + std::string(name(problem.code)));
  writer.string("title", title_of(problem.code));
  writer.integer("status", status);
  writer.string("code", name(problem.code));
  // Clients log problems, so a token in the path or the body is not repeated.
  writer.string("detail", told(problem.detail, limits::detail_bytes));
  writer.string("instance", policy::without_secrets(path));
  writer.boolean("retryable", !problem.lasting && retryable(problem.code, status));
  writer.string("requestId", request_id);
  if (!problem.errors.empty()) writer.raw("errors", errors_array(problem.errors));
  for (const auto& [member, value] : problem.members) writer.raw(member, value);
  writer.close();

  if (problem.retry_after_s) {
    response.headers.emplace_back("Retry-After", std::to_string(*problem.retry_after_s));
  } else if (wants_retry_after(problem.code, status)) {
    response.headers.emplace_back("Retry-After", "1");
  }
  if (!problem.etag.empty()) response.headers.emplace_back("ETag", "\"" + problem.etag + "\"");
  if (status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer realm=\"sessiond\"");
  return response;
}

}  // namespace sessiond::http
