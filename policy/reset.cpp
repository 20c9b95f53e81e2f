#include "policy/reset.hpp"

#include <algorithm>
#include <array>

#include "store/names.hpp"

namespace sessiond {
namespace {

// What API §3 says a reset clears, and what names the transcript that ends. Everything else outlives it, whoever wrote
// it.
constexpr std::array<std::string_view, 17> cleared{
    // SDK ids
    "sdkSessionId", "cliSessionIds", "claudeCliSessionId",
    // counters
    "messageCount", "inputTokens", "outputTokens", "totalTokens", "contextTokens", "compactionCount",
    // heartbeat and memory flush
    "lastHeartbeatText", "lastHeartbeatSentAt", "memoryFlushAt", "memoryFlushCompactionCount",
    // the last run
    "systemSent", "abortedLastRun",
    // the transcript and its shelf
    "sessionFile", "archivedAt"};

// What stays whatever the caller wants: which session this is, which chat, and where its replies go.
constexpr std::array<std::string_view, 29> identity{
    "sessionId", "updatedAt", "sessionStartedAt", "createdAt", "lastInteractionAt", "rev", "ephemeral",
    "previousSessions", "spawnedBy", "spawnDepth", "parentSessionKey",
    // delivery and origin
    "channel", "provider", "lastChannel", "lastProvider", "lastTo", "lastAccountId", "lastThreadId", "deliveryContext",
    "route", "origin",
    // the chat
    "chatType", "groupId", "subject", "groupChannel", "room", "space", "key", "agent"};

template <std::size_t N>
bool in(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

constexpr std::int64_t minute_ms = 60'000;
constexpr std::int64_t hour_ms = 60 * minute_ms;
constexpr std::int64_t day_ms = 24 * hour_ms;
// Stores hold any integer as a time; beyond this (the year 10000 and its mirror) arithmetic is not worth its overflow.
constexpr std::int64_t time_limit_ms = 253'402'300'800'000;

// Which reset day a moment of local time belongs to.
std::int64_t reset_day(std::int64_t local_ms, int at_hour) {
  const std::int64_t shifted = local_ms - at_hour * hour_ms;
  return shifted >= 0 ? shifted / day_ms : (shifted - day_ms + 1) / day_ms;
}

}  // namespace

std::optional<std::string_view> match_trigger(std::string_view text, const std::vector<std::string>& triggers) {
  text = trim(text);
  std::optional<std::string_view> rest;
  std::size_t longest = 0;
  for (const std::string_view given : triggers) {
    const std::string_view trigger = trim(given);
    if (trigger.size() <= longest || !starts_with_nocase(text, trigger)) continue;
    const std::string_view after = text.substr(trigger.size());
    if (!after.empty() && trim(after.substr(0, 1)).size() == 1) continue;  // "/newest" is not "/new"
    longest = trigger.size();
    rest = trim(after);
  }
  return rest;
}

std::string_view name(ResetDue due) {
  switch (due) {
    case ResetDue::idle:
      return "idle";
    case ResetDue::daily:
      return "daily";
    case ResetDue::none:
      return "";
  }
  return "";
}

ResetDue reset_due(const ResetRule& rule, std::int64_t last_activity_ms, std::int64_t now_ms, int utc_offset_minutes) {
  const std::int64_t last = std::clamp(last_activity_ms, -time_limit_ms, time_limit_ms);
  const std::int64_t now = std::clamp(now_ms, -time_limit_ms, time_limit_ms);
  if (now <= last) return ResetDue::none;
  switch (rule.mode) {
    case ResetRule::Mode::none:
      return ResetDue::none;
    case ResetRule::Mode::idle:
      return rule.idle_minutes > 0 && (now - last) / minute_ms >= rule.idle_minutes ? ResetDue::idle : ResetDue::none;
    case ResetRule::Mode::daily: {
      const std::int64_t offset = utc_offset_minutes * minute_ms;
      const bool crossed = reset_day(now + offset, rule.at_hour) > reset_day(last + offset, rule.at_hour);
      return crossed ? ResetDue::daily : ResetDue::none;
    }
  }
  return ResetDue::none;
}

bool kept_on_reset(std::string_view field) { return !in(cleared, field); }

json::Edit reset_edit(std::string_view entry, bool keep_metadata) {
  json::Edit edit;
  for (const json::Member& member : json::members(entry)) {
    std::string field = json::unescape(member.name);
    const bool stays = keep_metadata ? kept_on_reset(field) : in(identity, field);
    if (!stays) edit.unset.push_back(std::move(field));
  }
  return edit;
}

}  // namespace sessiond
