// An expected failure as a value. Code that understands the fault makes a Problem; daemon/http turns it into the
// application/problem+json body of a response, in one place. Clients test `code`, which never changes its name.
// `detail` is for people and names the file, field or value.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sessiond {

enum class Code : std::uint8_t {
  bad_request,
  bad_cursor,
  unauthorized,
  forbidden,
  policy_denied,
  not_found,
  agent_not_found,
  session_not_found,
  message_not_found,
  run_not_found,
  approval_not_found,
  hook_not_found,
  delivery_not_found,
  method_not_allowed,
  not_acceptable,
  request_timeout,
  session_exists,
  session_archived,
  session_reset,
  session_busy,
  taken_over,
  sdk_session_taken,
  nothing_to_compact,
  session_log_off,
  lease_lost,
  out_of_order,
  run_exists,
  hook_exists,
  turn_limit,
  cost_limit,
  queue_full,
  agent_bound,
  entry_id_conflict,
  idempotency_in_flight,
  precondition_failed,
  content_too_large,
  uri_too_long,
  unsupported_media_type,
  range_not_satisfiable,
  misdirected_host,
  validation_failed,
  idempotency_key_reused,
  reserved_name,
  invalid_id,
  agent_mismatch,
  unmatched_tool_call,
  unmatched_tool_result,
  hook_blocked,
  view_too_large,
  precondition_required,
  too_many_requests,
  header_fields_too_large,
  internal,
  lock_timeout,
  draining,
  starting,
  outcome_unknown,
  degraded,
  storage_full,
};

// The name that a response has in `code`.
std::string_view name(Code code);

// One fault in a body or file. `pointer` is a JSON pointer (RFC 6901).
struct Fault {
  std::string pointer;
  std::string detail;
  friend bool operator==(const Fault&, const Fault&) = default;
};

struct Problem {
  Code code = Code::internal;
  std::string detail;
  std::vector<Fault> errors{};                                 // validation_failed: every fault
  std::vector<std::pair<std::string, std::string>> members{};  // of the response: name and JSON value
  std::optional<int> retry_after_s{};                          // Retry-After, seconds
  std::string etag{};                                          // 412: the current ETag, else empty
  // Trying again does not help before a person has changed something.
  bool lasting = false;
};

template <class T>
using Result = std::expected<T, Problem>;

inline std::unexpected<Problem> fail(Code code, std::string detail) {
  return std::unexpected(Problem{.code = code, .detail = std::move(detail)});
}

// validation_failed with one fault; the problem's `detail` says the same.
std::unexpected<Problem> fail_at(std::string pointer, std::string detail);
// validation_failed with all faults of a body; `detail` has the first one and the number of the others. `all` is that
// of all faults, when `faults` are only the first of them. `faults` is not empty.
std::unexpected<Problem> fail_with(std::vector<Fault> faults, std::size_t all = 0);

// A failed system call: `doing` ("open") on `what` (a path) failed with errno `error`. ENOSPC and EDQUOT become
// storage_full, all others internal.
Problem io_problem(std::string_view doing, std::string_view what, int error);
std::unexpected<Problem> io_fail(std::string_view doing, std::string_view what);  // the same, by errno

}  // namespace sessiond
