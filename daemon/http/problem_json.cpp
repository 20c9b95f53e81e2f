// Makes the body of every error reply (RFC 9457).
#include <algorithm>
#include <span>
#include <string>

#include "daemon/http/message.hpp"
#include "policy/secret_scan.hpp"
#include "store/json/raw_json.hpp"
#include "store/limits.hpp"

namespace sessiond::http {

int status_of(Code code) {
  switch (code) {
    case Code::bad_request:
    case Code::bad_cursor:
      return 400;
    case Code::unauthorized:
      return 401;
    case Code::forbidden:
    case Code::policy_denied:
      return 403;
    case Code::not_found:
    case Code::agent_not_found:
    case Code::session_not_found:
    case Code::message_not_found:
      return 404;
    case Code::method_not_allowed:
      return 405;
    case Code::not_acceptable:
      return 406;
    case Code::request_timeout:
      return 408;
    case Code::session_exists:
    case Code::session_archived:
    case Code::session_reset:
    case Code::session_busy:
    case Code::entry_id_conflict:
    case Code::idempotency_in_flight:
      return 409;
    case Code::precondition_failed:
      return 412;
    case Code::content_too_large:
      return 413;
    case Code::uri_too_long:
      return 414;
    case Code::unsupported_media_type:
      return 415;
    case Code::range_not_satisfiable:
      return 416;
    case Code::misdirected_host:
      return 421;
    case Code::validation_failed:
    case Code::idempotency_key_reused:
    case Code::reserved_name:
    case Code::invalid_id:
    case Code::agent_mismatch:
      return 422;
    case Code::precondition_required:
      return 428;
    case Code::too_many_requests:
      return 429;
    case Code::header_fields_too_large:
      return 431;
    case Code::internal:
      return 500;
    case Code::lock_timeout:
    case Code::draining:
    case Code::starting:
    case Code::outcome_unknown:
    case Code::degraded:
      return 503;
    case Code::storage_full:
      return 507;
  }
  return 500;
}

namespace {

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
  for (char& c : title) {
    if (c == '_') c = ' ';
  }
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
  writer.boolean("retryable", retryable(problem.code, status));
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
