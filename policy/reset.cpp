#include "policy/reset.hpp"

#include <algorithm>
#include <array>

#include "policy/usage.hpp"
#include "store/names.hpp"

namespace sessiond::policy {
namespace {

// The fields that every reset clears. All others survive a reset that keeps metadata.
constexpr std::array<std::string_view, 33> cleared{
    // SDK ids
    "sdkSessionId", "cliSessionIds", "claudeCliSessionId",
    // counters
    "messageCount", "entryCount", "inputTokens", "outputTokens", "totalTokens", "compactionCount", "costMicrocents",
    "usageTotals", "totalTokensFresh", "authProfileOverrideCompactionCount",
    // what the system prompt was made of
    "systemPromptReport",
    // heartbeat and memory flush
    "lastHeartbeatText", "lastHeartbeatSentAt", "memoryFlushAt", "memoryFlushCompactionCount",
    // the runs, and what a person allowed for them
    "systemSent", "abortedLastRun", "status", "activeRun", "runCount", "turnCount", "allowedTools",
    // the transcript that ends
    "sessionFile", "archivedAt", "firstMessage", "firstMessageId", "forkedFrom", "copiedFrom", "contextExceeded",
    // messages that wait for an answer
    "needs"};

// The fields that every reset keeps, unless they are cleared above: which session and chat this is, where its replies
// go, which agent it has, and what that may do. A reset is no way around a guardrail.
constexpr std::array<std::string_view, 39> identity{
    "sessionId", "updatedAt", "sessionStartedAt", "createdAt", "lastInteractionAt", "rev", "ephemeral", "durable",
    "previousSessions", "spawnedBy", "spawnDepth", "parentSessionKey",
    // delivery and origin
    "channel", "channels", "provider", "lastChannel", "lastProvider", "lastTo", "lastAccountId", "lastThreadId",
    "deliveryContext", "route", "origin",
    // the chat
    "chatType", "groupId", "subject", "groupChannel", "room", "space", "key", "agent",
    // the agent
    "agentRef", "agentSnapshot", "fallbackChain", "tools", "guardrails", "permissionMode", "turnCap", "context"};

template <std::size_t N>
bool in(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

constexpr std::int64_t default_idle_minutes = 60;
constexpr std::int64_t minute_ms = 60'000;
constexpr std::int64_t hour_ms = 60 * minute_ms;
constexpr std::int64_t day_ms = 24 * hour_ms;
// A store may hold any integer as a time. Times are bounded to the years ±10000, so that arithmetic does not overflow.
constexpr std::int64_t time_limit_ms = 253'402'300'800'000;

std::int64_t floor_day(std::int64_t local_ms) {
  return local_ms >= 0 ? local_ms / day_ms : (local_ms - day_ms + 1) / day_ms;
}

// Returns the first moment at which a local clock shows `local_ms` or later. For an hour that a change of clocks skips
// this is the moment of the change; of one that comes twice it is the first. Assumes at most one change in two days.
std::int64_t first_moment(std::int64_t local_ms, const UtcOffset& offset_at) {
  const auto offset = [&offset_at](std::int64_t utc_ms) { return offset_at ? offset_at(utc_ms) : 0; };
  std::int64_t before = local_ms - day_ms;
  std::int64_t after = local_ms + day_ms;
  const std::int64_t old_offset = offset(before);
  const std::int64_t new_offset = offset(after);
  if (old_offset == new_offset) return local_ms - old_offset;
  while (after - before > 1) {  // narrows `after` down to the moment of the change
    const std::int64_t middle = before + (after - before) / 2;
    (offset(middle) == old_offset ? before : after) = middle;
  }
  const std::int64_t by_old_clock = local_ms - old_offset;
  return by_old_clock < after ? by_old_clock : std::max(after, local_ms - new_offset);
}

// Returns the latest moment, not after `now`, at which a local clock reached at_hour.
std::int64_t last_boundary(int at_hour, std::int64_t now_ms, const UtcOffset& offset_at) {
  const std::int64_t today = floor_day(now_ms + (offset_at ? offset_at(now_ms) : 0));
  // A clock that was put back over midnight has shown the next day's hour already.
  for (const std::int64_t day : {today + 1, today}) {
    const std::int64_t moment = first_moment(day * day_ms + at_hour * hour_ms, offset_at);
    if (moment <= now_ms) return moment;
  }
  return first_moment((today - 1) * day_ms + at_hour * hour_ms, offset_at);
}

// Returns the earliest moment after `then` at which a local clock reaches at_hour.
std::int64_t next_boundary(int at_hour, std::int64_t then, const UtcOffset& offset_at) {
  const std::int64_t today = floor_day(then + (offset_at ? offset_at(then) : 0));
  for (const std::int64_t day : {today - 1, today, today + 1}) {
    const std::int64_t moment = first_moment(day * day_ms + at_hour * hour_ms, offset_at);
    if (moment > then) return moment;
  }
  return first_moment((today + 2) * day_ms + at_hour * hour_ms, offset_at);
}

std::int64_t bounded(std::int64_t ms) { return std::clamp(ms, -time_limit_ms, time_limit_ms); }

// Returns when the session began. A moment that lies ahead is no information: the clock was ahead when it began.
std::optional<std::int64_t> started_at(const SessionTimes& times, std::int64_t now) {
  if (!times.started) return {};
  const std::int64_t started = bounded(*times.started);
  return started > now ? std::min(started, bounded(times.last_interaction)) : started;
}

// Removes the name of the agent behind a command: " hello" remains of "@my_bot hello". A text that does not begin with
// a name is returned as it is.
std::string_view without_name(std::string_view after) {
  if (!after.starts_with('@')) return after;
  const auto is_of_name = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  };
  const auto end = std::find_if_not(after.begin() + 1, after.end(), is_of_name);
  return end == after.begin() + 1 ? after : after.substr(static_cast<std::size_t>(end - after.begin()));
}

}  // namespace

std::optional<std::string_view> match_trigger(std::string_view text, const std::vector<std::string>& triggers,
                                              bool addressed) {
  text = store::trim(text);
  std::optional<std::string_view> rest;
  std::size_t longest = 0;
  for (const std::string_view given : triggers) {
    const std::string_view trigger = store::trim(given);
    if (trigger.size() <= longest || !store::starts_with_nocase(text, trigger)) continue;
    std::string_view after = text.substr(trigger.size());
    if (addressed && trigger.starts_with('/')) after = without_name(after);
    if (!after.empty() && store::trim(after.substr(0, 1)).size() == 1) continue;  // "/newest" is not "/new"
    longest = trigger.size();
    rest = store::trim(after);
  }
  return rest;
}

std::string_view without_mention(std::string_view text) {
  const std::string_view trimmed = store::trim(text);
  if (trimmed.starts_with("<@")) {
    const std::size_t end = trimmed.find('>');
    return end == std::string_view::npos ? text : store::trim(trimmed.substr(end + 1));
  }
  if (!trimmed.starts_with('@')) return text;
  const std::size_t end = trimmed.find_first_of(" \t\r\n");
  return end == std::string_view::npos ? text : store::trim(trimmed.substr(end));
}

std::string_view name(ResetDue due) { return due == ResetDue::idle ? "idle" : due == ResetDue::daily ? "daily" : ""; }

std::string_view name(ResetRule::Mode mode) {
  return mode == ResetRule::Mode::idle ? "idle" : mode == ResetRule::Mode::daily ? "daily" : "none";
}

std::int64_t idle_minutes_of(const ResetRule& rule) {
  if (rule.mode == ResetRule::Mode::none) return 0;
  const std::int64_t fallback = rule.mode == ResetRule::Mode::idle ? default_idle_minutes : 0;
  return std::clamp<std::int64_t>(rule.idle_minutes.value_or(fallback), 0, 2 * time_limit_ms / minute_ms + 1);
}

ResetRules::Chosen ResetRules::choose(std::string_view of_channel, std::string_view chat_type, bool in_thread) const {
  if (const auto found = by_channel.find(of_channel); found != by_channel.end()) return {found->second, "channel"};
  if (in_thread && thread) return {*thread, "type"};
  if (chat_type == "direct" && direct) return {*direct, "type"};
  if (chat_type == "group" && group) return {*group, "type"};
  if (chat_type == "channel" && channel) return {*channel, "type"};
  return {base, "base"};
}

ResetDue reset_due(const ResetRule& rule, const SessionTimes& times, std::int64_t now_ms, const UtcOffset& offset_at) {
  const std::int64_t now = bounded(now_ms);
  const std::int64_t idle_from = bounded(times.last_interaction);
  const std::int64_t minutes = idle_minutes_of(rule);
  const bool idle = minutes > 0 && now > idle_from && (now - idle_from) / minute_ms >= minutes;
  if (rule.mode == ResetRule::Mode::daily) {
    const auto started = started_at(times, now);
    if (started && *started < last_boundary(rule.at_hour, now, offset_at)) {
      const bool idle_first =
          idle && idle_from + minutes * minute_ms <= next_boundary(rule.at_hour, *started, offset_at);
      return idle_first ? ResetDue::idle : ResetDue::daily;
    }
  }
  return idle ? ResetDue::idle : ResetDue::none;
}

NextReset next_reset(const ResetRule& rule, const SessionTimes& times, std::int64_t now_ms,
                     const UtcOffset& offset_at) {
  NextReset next;
  if (const std::int64_t minutes = idle_minutes_of(rule); minutes > 0)
    next.idle_at = bounded(times.last_interaction) + minutes * minute_ms;
  if (rule.mode == ResetRule::Mode::daily) next.daily_at = next_boundary(rule.at_hour, bounded(now_ms), offset_at);
  return next;
}

bool kept_on_reset(std::string_view field) { return !in(cleared, field); }

json::Edit clear_edit(std::string_view entry) {
  json::Edit edit = reset_edit(entry, true);
  std::erase_if(edit.unset, [](const std::string& field) { return field == "sessionFile" || field == "archivedAt"; });
  for (const char* counter : {"messageCount", "entryCount", "inputTokens", "outputTokens", "totalTokens",
                              "compactionCount", "runCount", "turnCount"}) {
    std::erase(edit.unset, counter);
    edit.put_int(counter, 0);
  }
  std::erase(edit.unset, "usageTotals");
  edit.put("usageTotals", UsageTotals().json());
  return edit;
}

json::Edit reset_edit(std::string_view entry, bool keep_metadata) {
  json::Edit edit;
  for (const json::Member& member : json::members(entry)) {
    std::string field = json::unescape(member.name);
    const bool stays = keep_metadata ? kept_on_reset(field) : in(identity, field);
    if (!stays) edit.unset.push_back(std::move(field));
  }
  return edit;
}

}  // namespace sessiond::policy
