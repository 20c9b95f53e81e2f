// Decides what maintenance takes out of an agent's store: old sessions, sessions beyond a number, old archives, and
// what lies beyond a limit of disk space. It only selects. By default there are no limits, so nothing is selected.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sessiond::policy {

// Nothing: no limit of this kind.
struct RetentionLimits {
  std::optional<std::int64_t> prune_after_ms{};        // since the last interaction
  std::optional<std::uint64_t> max_entries{};          // sessions of one agent
  std::optional<std::uint64_t> max_disk_bytes{};       // sessions.json, transcripts and archives of one agent
  double high_water = 0.8;                             // above max_disk_bytes it is cleared to this share of it
  std::optional<std::int64_t> archive_retention_ms{};  // since the session ended
};

// Times are ms since the epoch.
struct StoredSession {
  std::string_view key;
  std::int64_t last_interaction = 0;
  std::uint64_t bytes = 0;          // of its transcripts
  std::string_view protected_by{};  // the reason for which it always stays; empty: none
};
// The archives of one event.
struct StoredArchive {
  std::int64_t ended = 0;
  std::uint64_t bytes = 0;
};
// The transcripts of one session id that have no session.
struct StoredOrphan {
  std::int64_t written = 0;
};
struct StoredAgent {
  std::vector<StoredSession> sessions{};
  std::vector<StoredArchive> archives{};
  std::vector<StoredOrphan> orphans{};
  std::uint64_t store_bytes = 0;  // of sessions.json
};

enum class PruneReason : std::uint8_t { age, count, disk, archive, orphan };
std::string_view name(PruneReason reason);  // "age", …

struct Selection {
  enum class Kind : std::uint8_t { session, archive, orphan };
  struct Item {
    Kind kind;
    std::size_t index;   // in the list of StoredAgent that has this kind
    PruneReason reason;  // age, count, orphan: archive it. archive, disk: destroy it.
  };
  std::vector<Item> items{};
  std::vector<std::size_t> kept{};  // sessions that a limit reaches and a protection keeps
};

// Selects, in this order and nothing twice: sessions by age; those beyond max_entries; above max_disk_bytes archives,
// and then sessions; archives by age; orphans by age. Of each the oldest goes first, of equal times the smaller key.
// Protected sessions count towards max_entries and disk space and are never selected. A session that goes by age or
// number becomes an archive, which the next selection takes before any session: so it counts as space that is cleared.
// Orphans may belong to a foreign program: they do not count as space, or they would cost other sessions their lives.
Selection select_for_pruning(const StoredAgent& agent, const RetentionLimits& limits, std::int64_t now);

}  // namespace sessiond::policy
