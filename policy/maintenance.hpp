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
  std::optional<std::int64_t> prune_after_ms{};        // since the last interaction
  std::optional<std::uint64_t> max_entries{};          // sessions of one agent
  std::optional<std::uint64_t> max_disk_bytes{};       // sessions.json, transcripts and archives of one agent
  double high_water = 0.8;                             // above max_disk_bytes it is cleared to this share of it
  std::optional<std::int64_t> archive_retention_ms{};  // since the archive was made
};

struct StoredSession {
  std::string_view key;
  std::int64_t last_interaction = 0;  // ms since the epoch
  std::uint64_t bytes = 0;            // of its transcripts
  std::string_view protected_by{};    // the reason for which it always stays; empty: none
};
struct StoredArchive {
  std::string_view name;  // of the file
  std::int64_t time = 0;  // ms since the epoch: when it was archived
  std::uint64_t bytes = 0;
};
// A transcript that no entry names.
struct Orphan {
  std::string_view name;
  std::int64_t modified = 0;  // ms since the epoch
  std::uint64_t bytes = 0;
};
struct StoredAgent {
  std::vector<StoredSession> sessions{};
  std::vector<StoredArchive> archives{};
  std::vector<Orphan> orphans{};
  std::uint64_t store_bytes = 0;  // of sessions.json
};

enum class PruneReason : std::uint8_t { age, count, disk, orphan, archive };
std::string_view name(PruneReason reason);  // "age", …

struct Selection {
  struct Session {
    std::size_t index;   // in StoredAgent::sessions
    PruneReason reason;  // age, count: archive it. disk: destroy it.
  };
  struct File {
    std::size_t index;
    PruneReason reason;
  };
  std::vector<Session> sessions{};
  std::vector<File> archives{};        // to be destroyed
  std::vector<std::size_t> orphans{};  // to be archived
  std::vector<std::size_t> kept{};     // sessions that a limit reaches and a protection keeps
};

// Selects, in this order and nothing twice: sessions by age; sessions beyond max_entries, those with the oldest last
// interaction first (of equal times the smaller key); archives by age; and above max_disk_bytes first the oldest
// archives, then the oldest sessions. Protected sessions count towards max_entries and disk space and are never
// selected. Orphans are selected when they were not modified for prune_after_ms.
Selection select_for_pruning(const StoredAgent& agent, const RetentionLimits& limits, std::int64_t now);

}  // namespace sessiond::policy
