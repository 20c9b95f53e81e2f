// The configured rules that decisions follow, in the form that the pure functions of policy/ take.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "policy/context/settings.hpp"
#include "policy/reset.hpp"
#include "policy/routing.hpp"
#include "policy/runs/settings.hpp"
#include "policy/send_policy.hpp"

namespace sessiond::decide {

struct Rules {
  policy::RouteSettings routing{};
  policy::SendPolicy send_policy{};
  context::Settings context{};
  runs::Settings runs{};
  std::map<std::string, std::string, std::less<>> compact_instructions{};  // by agent
  std::vector<std::string> reset_triggers{"/new", "/reset"};
  policy::ResetRules resets{};
  policy::UtcOffset utc_offset{};             // of the time zone of daily resets
  std::vector<std::string> require_fields{};  // that a client gives each session it makes
  bool sanitize_names = false;                // names.sanitize
  int spawn_depth = 3;
  int spawn_count = 64;
  std::uint64_t agents = 10'000;  // limits.agents
  std::uint64_t sessions_per_agent = 1'000'000;
  std::uint64_t entry_bytes_per_agent = 512ULL << 20;
  std::uint64_t ephemeral_bytes = 16ULL << 20;  // session.ephemeralBytes
  struct Deliveries {
    std::int64_t max_attempts = 10;
    std::int64_t max_age_ms = 24LL * 3'600'000;
    std::int64_t adopt_ms = 7LL * 24 * 3'600'000;
  };
  Deliveries deliveries{};
  bool shared = false;  // store.mode: foreign programs write, too
  std::string cwd;      // for transcript headers
};

}  // namespace sessiond::decide
