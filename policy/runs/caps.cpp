#include "policy/runs/caps.hpp"

#include "policy/usage.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::runs {
namespace {

bool is_null(std::string_view raw) { return json::kind(raw) == json::Kind::null; }

// Returns an integer from 0 to 2^53.
std::optional<std::int64_t> count_of(std::string_view raw) {
  const auto number = json::as_int(raw);
  return number && *number >= 0 && *number <= policy::most_counted ? number : std::nullopt;
}

}  // namespace

std::optional<std::string> turn_cap_fault(std::string_view raw) {
  if (is_null(raw) || count_of(raw) || json::as_string(raw) == "unlimited") return {};
  return R"(must be an integer from 0 to 2^53, or "unlimited")";
}

Cap turn_cap(std::string_view raw, Cap fallback) {
  if (raw.empty()) return fallback;
  if (json::as_string(raw) == "unlimited") return {};
  const auto number = count_of(raw);
  return number && *number > 0 ? number : fallback;
}

std::optional<std::string> max_steps_fault(std::string_view raw) {
  if (is_null(raw) || count_of(raw)) return {};
  return "must be an integer from 0 to 2^53";
}

Cap max_steps(std::string_view raw, Cap fallback) {
  const auto number = raw.empty() ? std::nullopt : count_of(raw);
  if (!number) return fallback;
  return *number > 0 ? number : std::nullopt;
}

}  // namespace sessiond::runs
