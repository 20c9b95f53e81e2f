// When a session begins anew, and what of its entry the successor keeps (API §3 "Reset keeps", §5 triggers, idle and
// daily).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/raw_json.hpp"

namespace sessiond {

// What follows the trigger, trimmed (maybe empty), when `text` is a trigger or begins with one and whitespace. Case
// does not matter; of several that fit the longest counts. A view into `text`.
std::optional<std::string_view> match_trigger(std::string_view text, const std::vector<std::string>& triggers);

struct ResetRule {
  enum class Mode : std::uint8_t { none, idle, daily };
  Mode mode = Mode::none;
  std::int64_t idle_minutes = 60;  // idle: due after that long; 0 or less: never
  int at_hour = 4;                 // daily: 0..23, local time
};
enum class ResetDue : std::uint8_t { none, idle, daily };
std::string_view name(ResetDue due);  // the `reason` of the reset: "idle", "daily"; "" for none
// Times are ms since the epoch; `utc_offset_minutes` is local time minus UTC, now.
ResetDue reset_due(const ResetRule& rule, std::int64_t last_activity_ms, std::int64_t now_ms, int utc_offset_minutes);

// Does a field of an entry outlive a reset that keeps metadata? Fields that nobody knows do.
bool kept_on_reset(std::string_view field);

// Removes from `entry` what its successor must not have. Without keep_metadata only identity, delivery, origin and what
// says which chat it is stay. sessionId, updatedAt and sessionStartedAt are left for the caller to set; counters are
// removed, the caller may put them back as 0.
json::Edit reset_edit(std::string_view entry, bool keep_metadata);

}  // namespace sessiond
