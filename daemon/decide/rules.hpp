// The configured rules that decisions follow, in the form that the pure functions of policy/ take.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/context/settings.hpp"
#include "policy/reset.hpp"
#include "policy/routing.hpp"
#include "policy/runs/settings.hpp"
#include "policy/send_policy.hpp"

namespace sessiond::decide {

// The files beside the messages: the log of a session (session_log.hpp) and its streams.
struct LogRules {
  enum class Mode : std::uint8_t { off, meta, full } mode = Mode::off;
  std::uint64_t file_bytes = 64ULL << 20;    // limits.logBytes
  std::uint64_t stream_bytes = 64ULL << 20;  // limits.streamBytes
};

// Holds the settings that the configuration has for the sessions of one agent.
struct AgentRules {
  std::string compact_instructions{};
  std::optional<std::int64_t> max_messages{};  // of view=llm
  std::string_view fs_scope = "sandboxed";     // the tier of a context that names none
};

struct Rules {
  policy::RouteSettings routing{};
  policy::SendPolicy send_policy{};
  context::Settings context{};
  runs::Settings runs{};
  std::map<std::string, AgentRules, std::less<>> by_agent{};
  AgentRules of_agent(std::string_view id) const {
    const auto found = by_agent.find(id);
    return found == by_agent.end() ? AgentRules{} : found->second;
  }
  LogRules log{};
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
  std::int64_t early_change_ms = 600'000;  // inbound.earlyChangeMs
  bool shared = false;                     // store.mode: foreign programs write, too
  std::string cwd;                         // for transcript headers
};

}  // namespace sessiond::decide
