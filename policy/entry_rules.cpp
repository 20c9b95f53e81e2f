#include "policy/entry_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "policy/pointer.hpp"
#include "policy/usage.hpp"
#include "store/delivery/delivery.hpp"
#include "store/names.hpp"
#include "store/time_range.hpp"

namespace sessiond::policy {
namespace {

constexpr std::size_t max_label_bytes = 200;
constexpr std::size_t max_name_bytes = 512;

enum class Type : std::uint8_t { text, name, label, mode, count, time, boolean, object, list };
// Fields of OpenClaw and of the daemon whose type is known, without delivery fields.
struct Fields {
  Type type;
  std::initializer_list<std::string_view> names;
};
constexpr std::array<Fields, 9> fields_by_type{
    {{Type::name, {"name"}},
     {Type::label, {"label"}},
     {Type::text,
      {// the session
       "cwd", "sessionFile", "spawnedBy", "sdkSessionId", "claudeCliSessionId",
       // the chat
       "groupId", "subject", "space", "displayName", "provider", "lastProvider", "room",
       // the model
       "providerOverride", "modelOverride", "authProfileOverride", "modelProvider", "model",
       // how the agent runs
       "execHost", "execSecurity", "execAsk", "execNode", "thinkingLevel", "verboseLevel", "reasoningLevel",
       "elevatedLevel", "lastHeartbeatText", "compactInstructions", "agentRef", "firstMessage", "firstMessageId"}},
     {Type::mode, {"permissionMode"}},
     {Type::count,
      {"spawnDepth", "authProfileOverrideCompactionCount", "queueDebounceMs", "queueCap", "contextTokens",
       "memoryFlushCompactionCount", "messageCount", "entryCount", "inputTokens", "outputTokens", "totalTokens",
       "compactionCount", "costMicrocents", "runtimeMs"}},
     {Type::object,
      {"cliSessionIds", "origin", "forkedFrom", "skillsSnapshot", "systemPromptReport", "contextLast", "guardrails",
       "agentSnapshot", "context", "usageTotals"}},
     {Type::list, {"fallbackChain", "tools"}},
     {Type::boolean, {"groupActivationNeedsSystemIntro", "systemSent", "abortedLastRun", "totalTokensFresh"}},
     {Type::time,
      {"memoryFlushAt", "lastHeartbeatSentAt", "sessionStartedAt", "lastInteractionAt", "archivedAt", "createdAt",
       "updatedAt", "startedAt", "endedAt"}}}};

struct Choice {
  std::string_view name;
  std::initializer_list<std::string_view> values;
};
constexpr std::array<Choice, 8> choices{
    {{"sendPolicy", {"allow", "deny"}},
     {"groupActivation", {"mention", "always"}},
     {"chatType", {"direct", "group", "channel", "dm"}},
     {"responseUsage", {"on", "off", "tokens", "full"}},
     {"queueDrop", {"old", "new", "summarize"}},
     {"queueMode", {"steer", "followup", "collect", "steer-backlog", "steer+backlog", "queue", "interrupt"}},
     {"ttsAuto", {"off", "always", "inbound", "tagged"}},
     {"authProfileOverrideSource", {"auto", "user"}}}};

constexpr std::array<std::string_view, 10> never_written{"rev",   "key",  "agent",    "ephemeral",   "durable",
                                                         "paths", "slug", "takeover", "lastMessage", "messageCounts"};
constexpr std::array<std::string_view, 20> imported{
    "previousSessions", "sessionStartedAt", "sessionId",   "createdAt",    "updatedAt",
    "messageCount",     "entryCount",       "inputTokens", "outputTokens", "totalTokens",
    "compactionCount",  "spawnedBy",        "spawnDepth",  "firstMessage", "firstMessageId",
    "forkedFrom",       "costMicrocents",   "channels",    "usageTotals",  "totalTokensFresh"};

// Fields in which the daemon keeps how a session's runs stand (policy/runs), which messages wait for an answer, and
// from which sessions messages were copied.
constexpr std::array<std::string_view, 7> of_daemon{"status",       "activeRun", "runCount",  "turnCount",
                                                    "allowedTools", "needs",     "copiedFrom"};

template <std::size_t N>
bool is_among(const std::array<std::string_view, N>& names, std::string_view field) {
  return std::ranges::find(names, field) != names.end();
}

bool never(std::string_view field) { return is_among(never_written, field); }

std::optional<std::string> choice_fault(const Choice& choice, std::string_view raw) {
  const std::optional<std::string> text = json::as_string(raw);
  if (text && std::ranges::find(choice.values, *text) != choice.values.end()) return std::nullopt;
  return fmt::format("must be one of {}", fmt::join(choice.values, ", "));
}

std::optional<std::string> label_fault(std::string_view raw, std::size_t most) {
  const std::optional<std::string> text = json::as_string(raw);
  if (!text) return "must be a string";
  if (text->size() > most) return fmt::format("has {} bytes, at most {} are kept", text->size(), most);
  return std::nullopt;
}

// ^[A-Za-z][A-Za-z0-9_-]{0,63}$
bool is_mode(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto plain = [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '-'; };
  return !text.empty() && text.size() <= 64 && letter(text.front()) && std::ranges::all_of(text, plain);
}

std::optional<std::string> mode_fault(std::string_view raw) {
  const std::optional<std::string> text = json::as_string(raw);
  if (text && is_mode(*text)) return std::nullopt;
  return "must be a letter and at most 63 letters, digits, \"_\" or \"-\"";
}

std::optional<std::string> integer_fault(std::string_view raw, std::int64_t most, std::string_view end) {
  const auto number = json::as_int(raw);
  if (number && *number >= 0 && *number <= most) return std::nullopt;
  return fmt::format("must be an integer from 0 to {}", end);
}

std::optional<std::string> type_fault(Type type, std::string_view raw) {
  const json::Kind kind = json::kind(raw);
  switch (type) {
    case Type::text:
      return kind == json::Kind::string ? std::nullopt : std::optional<std::string>("must be a string");
    case Type::name:
      return label_fault(raw, max_name_bytes);
    case Type::label:
      return label_fault(raw, max_label_bytes);
    case Type::mode:
      return mode_fault(raw);
    case Type::count:
      return integer_fault(raw, most_counted, "2^53");
    case Type::time:
      return integer_fault(raw, store::last_time_ms, "the year 9999");
    case Type::boolean:
      return kind == json::Kind::boolean ? std::nullopt : std::optional<std::string>("must be true or false");
    case Type::object:
      return kind == json::Kind::object ? std::nullopt : std::optional<std::string>("must be an object");
    case Type::list:
      return kind == json::Kind::array ? std::nullopt : std::optional<std::string>("must be an array");
  }
  return std::nullopt;
}

std::optional<std::string> session_id_fault(std::string_view raw) {
  const std::optional<std::string> id = json::as_string(raw);
  if (!id) return "must be a string";
  const Result<void> valid = store::check_session_id(*id);
  return valid ? std::nullopt : std::optional(valid.error().detail);
}

std::optional<std::string> value_fault(std::string_view field, std::string_view raw, Import import) {
  if (field == "sessionId") return session_id_fault(raw);
  if (import == Import::yes && json::kind(raw) == json::Kind::null) return std::nullopt;
  const auto choice = std::ranges::find(choices, field, &Choice::name);
  if (choice != choices.end()) return choice_fault(*choice, raw);
  for (const auto& [type, names] : fields_by_type) {
    if (std::ranges::find(names, field) != names.end()) return type_fault(type, raw);
  }
  return std::nullopt;
}

constexpr std::array<std::string_view, 6> origin_texts{"label", "provider", "surface", "from", "to", "accountId"};

std::optional<std::string> member_fault(std::string_view field, std::string_view name, std::string_view raw) {
  const json::Kind kind = json::kind(raw);
  if (kind == json::Kind::null) return std::nullopt;  // a PATCH removes it
  if (field == "cliSessionIds") return type_fault(Type::text, raw);
  if (std::ranges::find(origin_texts, name) != origin_texts.end()) return type_fault(Type::text, raw);
  if (name == "chatType") return value_fault(name, raw, Import::no);
  return name == "threadId" ? delivery::thread_id_fault(raw) : std::nullopt;
}

// Checks the members of the objects whose members have types: cliSessionIds and origin.
void check_members(std::string_view field, std::string_view raw, const std::string& pointer,
                   std::vector<Fault>& faults) {
  if (field != "cliSessionIds" && field != "origin") return;
  for (const json::Member& member : json::members(raw)) {
    const std::string name = json::unescape(member.name);
    if (auto why = member_fault(field, name, member.value))
      faults.push_back({pointer_to(pointer, name), std::move(*why)});
  }
}

}  // namespace

bool never_imported(std::string_view field) { return never(field) || is_among(of_daemon, field); }
bool read_only(std::string_view field) { return never_imported(field) || is_among(imported, field); }

Result<void> check_entry_edit(const json::Edit& edit, Import import, std::string_view pointer_prefix,
                              std::vector<Fault> faults) {
  const auto refused = [&](std::string_view field) {
    return read_only(field) && (import == Import::no || !is_among(imported, field));
  };
  for (const auto& [field, value] : edit.set) {
    std::optional<std::string> why = refused(field) ? "is read-only" : value_fault(field, value, import);
    std::string pointer = pointer_to(pointer_prefix, field);
    if (why) {
      faults.push_back({std::move(pointer), std::move(*why)});
    } else if (json::kind(value) == json::Kind::object) {
      check_members(field, value, pointer, faults);
    }
  }
  for (const std::string& field : edit.unset) {
    if (refused(field)) faults.push_back({pointer_to(pointer_prefix, field), "is read-only"});
  }
  if (!faults.empty()) return fail_with(std::move(faults));
  return {};
}

void drop_unchanged_run_fields(json::Edit& edit, std::string_view before) {
  std::erase_if(edit.set, [&](const json::Edit::Set& member) {
    return is_among(of_daemon, member.name) &&
           json::same(json::find(before, member.name).value_or("null"), member.value);
  });
}

void normalize_entry_edit(json::Edit& edit) {
  const auto found = std::ranges::find(edit.set, "chatType", &json::Edit::Set::name);
  if (found != edit.set.end() && json::as_string(found->value) == "dm") found->value = "\"direct\"";
}

Result<void> take_identity(json::Edit& edit, std::string_view key, std::string_view agent,
                           std::string_view pointer_prefix) {
  std::vector<Fault> faults;
  std::optional<std::string> other_agent;
  for (const auto& [field, value] : edit.set) {
    const std::optional<std::string> text = json::as_string(value);
    if (field == "agent" && text != agent) {
      other_agent = text.value_or("");
    } else if (field == "key" && (!text || !store::same_key(*text, key))) {
      faults.push_back(
          {pointer_to(pointer_prefix, field), fmt::format("must be \"{}\", the session in the path", key)});
    }
  }
  if (other_agent) {
    return fail(Code::agent_mismatch, fmt::format("the body names agent \"{}\", the path \"{}\"", *other_agent, agent));
  }
  if (!faults.empty()) return fail_with(std::move(faults));
  std::erase_if(edit.set, [](const json::Edit::Set& member) { return never(member.name) || member.name == "asOf"; });
  std::erase_if(edit.unset, [](std::string_view field) { return never(field); });
  return {};
}

}  // namespace sessiond::policy
