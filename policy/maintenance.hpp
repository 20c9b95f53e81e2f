// Decides what maintenance takes out of an agent's store: old sessions, sessions beyond a number, and what lies beyond
// a limit of disk space. It only selects. By default there are no limits, so nothing is selected.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sessiond::policy {

// Nothing: no limit of this kind.
struct RetentionLimits {
  std::optional<std::int64_t> prune_after_ms{};   // since the last interaction
  std::optional<std::uint64_t> max_entries{};     // sessions of one agent
  std::optional<std::uint64_t> max_disk_bytes{};  // sessions.json and transcripts of one agent
  double high_water = 0.8;                        // above max_disk_bytes it is cleared to this share of it
};

struct StoredSession {
  std::string_view key;
  std::int64_t last_interaction = 0;  // ms since the epoch
  std::uint64_t bytes = 0;            // of its transcripts
  std::string_view protected_by{};    // the reason for which it always stays; empty: none
};
struct StoredAgent {
  std::vector<StoredSession> sessions{};
  std::uint64_t store_bytes = 0;  // of sessions.json
};

enum class PruneReason : std::uint8_t { age, count, disk };
std::string_view name(PruneReason reason);  // "age", …

struct Selection {
  struct Session {
    std::size_t index;   // in StoredAgent::sessions
    PruneReason reason;  // age, count: archive it. disk: destroy it.
  };
  std::vector<Session> sessions{};
  std::vector<std::size_t> kept{};  // sessions that a limit reaches and a protection keeps
};

// Selects, in this order and nothing twice: sessions by age; those beyond max_entries, the one with the oldest last
// interaction first (of equal times the smaller key); above max_disk_bytes the oldest. Protected sessions count towards
// max_entries and disk space and are never selected.
Selection select_for_pruning(const StoredAgent& agent, const RetentionLimits& limits, std::int64_t now);

}  // namespace sessiond::policy
