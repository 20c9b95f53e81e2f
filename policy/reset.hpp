// Decides when a session is reset (by a trigger text, after idle time, or daily), and which fields of its entry the
// successor keeps.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/json/raw_json.hpp"

namespace sessiond::policy {

// Returns what follows the trigger, trimmed, if `text` is a trigger or begins with one and whitespace. Ignores case;
// the longest trigger that matches counts. `addressed`: the agent was meant, so that a command may name it, as Telegram
// writes it in groups: "/new@my_bot hello". The result is a view into `text`.
std::optional<std::string_view> match_trigger(std::string_view text, const std::vector<std::string>& triggers,
                                              bool addressed);

// Returns the text after the mention that it begins with (`<@U1> …`, `@name …`). Returns the text itself when there is
// no mention, and for `@name` when nothing follows it.
std::string_view without_mention(std::string_view text);

struct ResetRule {
  enum class Mode : std::uint8_t { none, idle, daily };
  Mode mode = Mode::none;
  // Due after this time without a word from a user; 0 or less: never. Nothing: 60 in mode idle, never in mode daily.
  std::optional<std::int64_t> idle_minutes{};
  int at_hour = 4;  // daily: 0..23, local time
};
// The rules of all sessions, and the one that counts for a session: that of its channel, else that of its type, else
// the base. A thread is a type before the type of its chat. Rules are not merged.
struct ResetRules {
  ResetRule base{};
  std::optional<ResetRule> direct{}, group{}, channel{}, thread{};
  std::map<std::string, ResetRule, std::less<>> by_channel{};  // names in lower case

  struct Chosen {
    const ResetRule& rule;
    std::string_view from;  // "channel", "type" or "base"
  };
  Chosen choose(std::string_view channel, std::string_view chat_type, bool in_thread) const;
};

std::string_view name(ResetRule::Mode mode);          // "none", "idle", "daily"
std::int64_t idle_minutes_of(const ResetRule& rule);  // with the default of its mode; 0: idle time resets nothing

enum class ResetDue : std::uint8_t { none, idle, daily };
std::string_view name(ResetDue due);  // the `reason` of the reset: "idle", "daily"; "" for none
// Returns local time minus UTC in ms, at a moment in ms since the epoch. Empty: UTC. It is called for each moment that
// matters, since daylight saving time changes the offset.
using UtcOffset = std::function<std::int64_t(std::int64_t utc_ms)>;

struct SessionTimes {
  std::optional<std::int64_t> started{};  // nothing: unknown, then a daily reset is never due
  std::int64_t last_interaction = 0;
};

// Says whether a reset is due. Times are ms since the epoch. The idle time begins with the last interaction. A daily
// reset is due when the session began before at_hour o'clock last passed. If a change of clocks skips at_hour, the
// moment of the change counts; if it comes twice, the first counts. If both are due, the one that came first is
// returned.
ResetDue reset_due(const ResetRule& rule, const SessionTimes& times, std::int64_t now_ms, const UtcOffset& offset_at);

// When a session will be reset if nothing happens before. Nothing: never for this reason.
struct NextReset {
  std::optional<std::int64_t> idle_at{}, daily_at{};
};
// daily_at is the next moment after now_ms at which a local clock reaches at_hour; idle_at may have passed.
NextReset next_reset(const ResetRule& rule, const SessionTimes& times, std::int64_t now_ms, const UtcOffset& offset_at);

// Says whether a field of an entry survives a reset that keeps metadata. Unknown fields do.
bool kept_on_reset(std::string_view field);

// Returns the edit that removes from `entry` what its successor must not have. Without keep_metadata only identity,
// delivery, origin, the fields that name the chat, and those of the agent and its limits remain. The caller sets
// sessionId, updatedAt and sessionStartedAt. Counters are removed; the caller may set them to 0.
json::Edit reset_edit(std::string_view entry, bool keep_metadata);

// Returns the edit that empties a session and leaves its id: it removes what a reset clears, but the transcript keeps
// its name, and an archived session stays archived. Counters are set to 0.
json::Edit clear_edit(std::string_view entry);

}  // namespace sessiond::policy
