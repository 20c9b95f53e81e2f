#include "daemon/decide/session.hpp"

#include <algorithm>
#include <utility>

#include "policy/usage.hpp"
#include "store/names.hpp"

namespace sessiond::decide {

std::optional<std::int64_t>* Session::counter_of(std::string_view field) {
  if (field == "messageCount") return &message_count;
  if (field == "inputTokens") return &input_tokens;
  if (field == "outputTokens") return &output_tokens;
  if (field == "totalTokens") return &total_tokens;
  return field == "compactionCount" ? &compaction_count : nullptr;
}

Session::Session(std::string key, sessions::RawEntry entry) : key_(std::move(key)), entry_(std::move(entry)) {
  read_fields();
}

const sessions::RawEntry& Session::entry() const {
  if (!counters_.empty()) {
    entry_ = std::make_shared<const std::string>(json::apply(*entry_, counters_));
    counters_.set.clear();
  }
  return entry_;
}

void Session::edit(const json::Edit& edit) {
  if (edit.unset.empty() &&
      std::ranges::all_of(edit.set, [this](const auto& member) { return edit_counter(member); })) {
    return;
  }
  entry_ = std::make_shared<const std::string>(json::apply(*entry(), edit));
  read_fields();
}

bool Session::edit_counter(const json::Edit::Set& member) {
  const auto number = json::as_int(member.value);
  if (!number) return false;
  if (member.name == "updatedAt") {
    updated_at = *number;
  } else if (member.name == "lastInteractionAt") {
    last_interaction_at = number;
  } else if (auto* counter = counter_of(member.name)) {
    *counter = policy::counted(member.value);
  } else {
    return false;
  }
  counters_.put(member.name, member.value);
  return true;
}

void Session::read_fields() {
  session_id = session_file = channel = chat_type = label = name = spawned_by = {};
  archived_at = last_interaction_at = started_at = message_count = input_tokens = output_tokens = total_tokens =
      compaction_count = {};
  rev = 0;
  const std::int64_t chosen = std::exchange(created_at, 0);
  updated_at = 0;
  ephemeral = false;
  std::string legacy_channel;
  std::string last_channel;
  for (const json::Member& member : json::members(*entry_)) {
    // Foreign entries may spell a name with escapes: "upd\u0061tedAt" is one of ours.
    const std::string unescaped = member.name.contains('\\') ? json::unescape(member.name) : std::string();
    const std::string_view field = unescaped.empty() ? member.name : unescaped;
    const auto text = [&] { return json::as_string(member.value).value_or(""); };
    const auto number = [&] { return json::as_int(member.value); };
    if (field == "sessionId")
      session_id = text();
    else if (field == "sessionFile")
      session_file = text();
    else if (field == "channel")
      channel = store::lower(store::trim(text()));
    else if (field == "provider")
      legacy_channel = store::lower(store::trim(text()));
    else if (field == "lastChannel" || (field == "lastProvider" && last_channel.empty()))
      last_channel = store::lower(store::trim(text()));
    else if (field == "chatType")
      chat_type = text();
    else if (field == "label")
      label = text();
    else if (field == "name")
      name = text();
    else if (field == "spawnedBy")
      spawned_by = text();
    else if (field == "rev")
      rev = static_cast<std::uint64_t>(std::max<std::int64_t>(number().value_or(0), 0));
    else if (field == "createdAt")
      created_at = number().value_or(0);  // 0: see below
    else if (field == "sessionStartedAt")
      started_at = number();
    else if (field == "updatedAt")
      updated_at = number().value_or(0);
    else if (field == "archivedAt")
      archived_at = number();
    else if (field == "lastInteractionAt")
      last_interaction_at = number();
    else if (auto* counter = counter_of(field))
      *counter = policy::counted(member.value);
    else if (field == "ephemeral")
      ephemeral = json::as_bool(member.value).value_or(false);
  }
  if (chat_type == "dm") chat_type = "direct";
  if (channel.empty()) channel = legacy_channel;
  const store::KeyParts parts = store::parse_key(key_);
  if (channel.empty()) channel = store::lower(parts.channel);
  if (channel.empty()) channel = last_channel;
  if (chat_type.empty()) chat_type = store::lower(parts.chat_type);
  // If the entry does not say when it was made, a time is chosen once and kept.
  if (!started_at && created_at != 0) started_at = created_at;
  if (created_at == 0) created_at = started_at.value_or(0) != 0 ? *started_at : chosen != 0 ? chosen : updated_at;
}

}  // namespace sessiond::decide
