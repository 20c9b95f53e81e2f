// When a session begins anew, and what of its entry the successor keeps (API §3 "Reset keeps", §5 triggers, idle and
// daily).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/json/raw_json.hpp"

namespace sessiond {

// What follows the trigger, trimmed (maybe empty), when `text` is a trigger or begins with one and whitespace. Case
// does not matter; of several that fit the longest counts. A view into `text`.
std::optional<std::string_view> match_trigger(std::string_view text, const std::vector<std::string>& triggers);

// The text behind a mention that it begins with (`<@U1> …`, `@name …`); the text itself where there is none or nothing
// follows it.
std::string_view without_mention(std::string_view text);

struct ResetRule {
  enum class Mode : std::uint8_t { none, idle, daily };
  Mode mode = Mode::none;
  std::int64_t idle_minutes = 60;  // idle: due after that long; 0 or less: never
  int at_hour = 4;                 // daily: 0..23, local time
};
enum class ResetDue : std::uint8_t { none, idle, daily };
std::string_view name(ResetDue due);  // the `reason` of the reset: "idle", "daily"; "" for none
// Local time minus UTC in ms, at a moment in ms since the epoch; empty: UTC. Asked about the moments that count, never
// once for all: clocks are put forward and back, and zones change.
using UtcOffset = std::function<std::int64_t(std::int64_t utc_ms)>;

struct SessionTimes {
  std::optional<std::int64_t> started{};  // nothing: not known, never due by the day
  std::int64_t last_interaction = 0;
};

// Times are ms since the epoch. Idle goes by the last interaction; daily asks whether the session began before the
// newest at_hour o'clock. An at_hour that a change of clocks skips happens right behind the change; one that comes
// twice counts once, the first.
ResetDue reset_due(const ResetRule& rule, const SessionTimes& times, std::int64_t now_ms, const UtcOffset& offset_at);

// Does a field of an entry outlive a reset that keeps metadata? Fields that nobody knows do.
bool kept_on_reset(std::string_view field);

// Removes from `entry` what its successor must not have. Without keep_metadata only identity, delivery, origin and what
// says which chat it is stay. sessionId, updatedAt and sessionStartedAt are left for the caller to set; counters are
// removed, the caller may put them back as 0.
json::Edit reset_edit(std::string_view entry, bool keep_metadata);

}  // namespace sessiond
