#include "store/problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <system_error>

namespace sessiond {

std::string_view name(Code code) {
  switch (code) {
    case Code::bad_request:
      return "bad_request";
    case Code::bad_cursor:
      return "bad_cursor";
    case Code::unauthorized:
      return "unauthorized";
    case Code::forbidden:
      return "forbidden";
    case Code::policy_denied:
      return "policy_denied";
    case Code::not_found:
      return "not_found";
    case Code::agent_not_found:
      return "agent_not_found";
    case Code::session_not_found:
      return "session_not_found";
    case Code::message_not_found:
      return "message_not_found";
    case Code::method_not_allowed:
      return "method_not_allowed";
    case Code::not_acceptable:
      return "not_acceptable";
    case Code::request_timeout:
      return "request_timeout";
    case Code::session_exists:
      return "session_exists";
    case Code::session_archived:
      return "session_archived";
    case Code::session_reset:
      return "session_reset";
    case Code::session_busy:
      return "session_busy";
    case Code::entry_id_conflict:
      return "entry_id_conflict";
    case Code::idempotency_in_flight:
      return "idempotency_in_flight";
    case Code::precondition_failed:
      return "precondition_failed";
    case Code::content_too_large:
      return "content_too_large";
    case Code::uri_too_long:
      return "uri_too_long";
    case Code::unsupported_media_type:
      return "unsupported_media_type";
    case Code::range_not_satisfiable:
      return "range_not_satisfiable";
    case Code::misdirected_host:
      return "misdirected_host";
    case Code::validation_failed:
      return "validation_failed";
    case Code::idempotency_key_reused:
      return "idempotency_key_reused";
    case Code::reserved_name:
      return "reserved_name";
    case Code::invalid_id:
      return "invalid_id";
    case Code::agent_mismatch:
      return "agent_mismatch";
    case Code::precondition_required:
      return "precondition_required";
    case Code::too_many_requests:
      return "too_many_requests";
    case Code::header_fields_too_large:
      return "header_fields_too_large";
    case Code::internal:
      return "internal";
    case Code::lock_timeout:
      return "lock_timeout";
    case Code::draining:
      return "draining";
    case Code::starting:
      return "starting";
    case Code::outcome_unknown:
      return "outcome_unknown";
    case Code::degraded:
      return "degraded";
    case Code::storage_full:
      return "storage_full";
  }
  return "internal";
}

std::unexpected<Problem> fail_at(std::string pointer, std::string detail) {
  Problem problem{.code = Code::validation_failed,
                  .detail = pointer.empty() ? detail : fmt::format("{}: {}", pointer, detail)};
  problem.errors.push_back({std::move(pointer), std::move(detail)});
  return std::unexpected(std::move(problem));
}

std::unexpected<Problem> fail_with(std::vector<Fault> faults, std::size_t all) {
  assert(!faults.empty());
  const Fault& first = faults.front();
  std::string detail = fmt::format("{}: {}", first.pointer.empty() ? "/" : first.pointer, first.detail);
  if (all = std::max(all, faults.size()); all > 1) detail += fmt::format(" (and {} more)", all - 1);
  return std::unexpected(
      Problem{.code = Code::validation_failed, .detail = std::move(detail), .errors = std::move(faults)});
}

Problem io_problem(std::string_view doing, std::string_view what, int error) {
  const bool full = error == ENOSPC || error == EDQUOT;
  return {.code = full ? Code::storage_full : Code::internal,
          .detail = fmt::format("{} {}: {}", doing, what, std::generic_category().message(error))};
}

}  // namespace sessiond
