// The numbers of this folder's rules, from the configuration keys runs.*, approvals.*, hooks.* and agents.<id>.*.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "policy/runs/model_choice.hpp"

namespace sessiond::runs {

inline constexpr std::int64_t unlimited = -1;

// What the answers of one session may cost.
struct CostCap {
  std::int64_t microcents = 0;  // USD times 10^8
  bool fails = true;            // a session that has cost as much may have no further run; else it is only told
};

struct Settings {
  std::int64_t lease_ms = 60'000;
  std::int64_t idle_timeout_ms = 0;  // 0: none
  std::int64_t max_steps = 10;       // 0: no limit
  std::int64_t turn_cap = 50;        // of a session; `unlimited`
  std::int64_t max_attempts = 3;
  std::int64_t abort_grace_ms = 5'000;
  std::int64_t runner_idle_ms = 30LL * 60'000;
  std::int64_t queue_max_age_ms = 24LL * 3'600'000;
  std::int64_t queue_max_wait_ms = 5'000;  // of a run that collects, from its first input on
  std::uint64_t partial_bytes = 1ULL << 20;
  std::uint64_t keep = 100;  // ended runs of a session
  bool on_inbound = true;
  bool exclusive = false;
  ModelNames model{};
  std::map<std::string, ModelNames, std::less<>> agents{};    // by id
  std::map<std::string, CostCap, std::less<>> cost_caps{};    // by agent
  const CostCap* cost_cap_of(std::string_view agent) const {  // null: none
    const auto found = cost_caps.find(agent);
    return found == cost_caps.end() ? nullptr : &found->second;
  }
  std::int64_t approval_timeout_ms = 120'000;
  bool require_approver = false;
  std::int64_t hook_timeout_ms = 10'000;
  std::int64_t takeover_ms = 4LL * 3'600'000;
  std::int64_t takeover_from_me_ms = 0;  // by what the account's owner types; 0: does not
};

}  // namespace sessiond::runs
