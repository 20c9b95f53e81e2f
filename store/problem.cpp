#include "store/problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <system_error>

namespace sessiond {
namespace {

// In the order of the enum.
constexpr auto names = std::to_array<std::string_view>({"bad_request",
                                                        "bad_cursor",
                                                        "unauthorized",
                                                        "forbidden",
                                                        "policy_denied",
                                                        "not_found",
                                                        "agent_not_found",
                                                        "session_not_found",
                                                        "message_not_found",
                                                        "run_not_found",
                                                        "approval_not_found",
                                                        "hook_not_found",
                                                        "delivery_not_found",
                                                        "method_not_allowed",
                                                        "not_acceptable",
                                                        "request_timeout",
                                                        "session_exists",
                                                        "session_archived",
                                                        "session_reset",
                                                        "session_busy",
                                                        "taken_over",
                                                        "sdk_session_taken",
                                                        "nothing_to_compact",
                                                        "session_log_off",
                                                        "lease_lost",
                                                        "out_of_order",
                                                        "run_exists",
                                                        "hook_exists",
                                                        "turn_limit",
                                                        "cost_limit",
                                                        "queue_full",
                                                        "agent_bound",
                                                        "entry_id_conflict",
                                                        "idempotency_in_flight",
                                                        "precondition_failed",
                                                        "content_too_large",
                                                        "uri_too_long",
                                                        "unsupported_media_type",
                                                        "range_not_satisfiable",
                                                        "misdirected_host",
                                                        "validation_failed",
                                                        "idempotency_key_reused",
                                                        "reserved_name",
                                                        "invalid_id",
                                                        "agent_mismatch",
                                                        "unmatched_tool_call",
                                                        "unmatched_tool_result",
                                                        "hook_blocked",
                                                        "view_too_large",
                                                        "precondition_required",
                                                        "too_many_requests",
                                                        "header_fields_too_large",
                                                        "internal",
                                                        "lock_timeout",
                                                        "draining",
                                                        "starting",
                                                        "outcome_unknown",
                                                        "degraded",
                                                        "storage_full"});
static_assert(names.size() == static_cast<std::size_t>(Code::storage_full) + 1);

}  // namespace

std::string_view name(Code code) { return names.at(static_cast<std::size_t>(code)); }

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

std::unexpected<Problem> io_fail(std::string_view doing, std::string_view what) {
  const int error = errno;
  return std::unexpected(io_problem(doing, what, error));
}

Problem io_problem(std::string_view doing, std::string_view what, int error) {
  const bool full = error == ENOSPC || error == EDQUOT;
  return {.code = full ? Code::storage_full : Code::internal,
          .detail = fmt::format("{} {}: {}", doing, what, std::generic_category().message(error))};
}

}  // namespace sessiond
