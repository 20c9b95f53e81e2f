#include "daemon/decide/session.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "daemon/decide/message_channels.hpp"
#include "daemon/decide/sdk_session.hpp"
#include "daemon/decide/token_counters.hpp"
#include "store/names.hpp"
#include "store/number.hpp"

namespace sessiond::decide {

namespace {

template <class Field>
struct Named {
  std::string_view name;
  Field field;
};

constexpr std::array<Named<std::optional<std::int64_t> Counters::*>, 7> counters{
    {{"messageCount", &Counters::message_count},
     {"entryCount", &Counters::entry_count},
     {"inputTokens", &Counters::input_tokens},
     {"outputTokens", &Counters::output_tokens},
     {"totalTokens", &Counters::total_tokens},
     {"compactionCount", &Counters::compaction_count},
     {"costMicrocents", &Counters::cost_microcents}}};
// The names of Counter, in its order: two times, the counters above, and usageTotals.
constexpr auto counter_names = [] {
  std::array<std::string_view, counter_count> names{"updatedAt", "lastInteractionAt"};
  static_assert(2 + counters.size() + 1 == names.size());
  std::ranges::transform(counters, names.begin() + 2, [](const auto& counter) { return counter.name; });
  names.back() = totals_member;
  return names;
}();
constexpr std::string_view name_of(Counter counter) { return counter_names[static_cast<std::size_t>(counter)]; }
constexpr std::array<Named<std::string Session::*>, 6> texts{{{"sessionId", &Session::session_id},
                                                              {"sessionFile", &Session::session_file},
                                                              {"label", &Session::label},
                                                              {"name", &Session::name},
                                                              {"slug", &Session::slug},
                                                              {"spawnedBy", &Session::spawned_by}}};
// The members that channel, channels, chat_type, created_at, started_at and sdk_session_id are made of: of several, or
// of one and the key.
constexpr std::array<std::string_view, 12> joined{
    "channel",   "provider",         "lastChannel",  "lastProvider",       "origin",       "channels", "chatType",
    "createdAt", "sessionStartedAt", "sdkSessionId", "claudeCliSessionId", "cliSessionIds"};

std::vector<std::string> read_copied_from(std::string_view value) {
  std::vector<std::string> ids;
  if (json::kind(value) != json::Kind::array) return ids;
  for (const std::string_view element : json::elements(value)) {
    auto id = json::as_string(element);
    if (id && ids.size() < most_copied_from && std::ranges::find(ids, *id) == ids.end()) ids.push_back(*std::move(id));
  }
  return ids;
}

}  // namespace

std::optional<std::int64_t>* Counters::find(std::string_view field) {
  const auto found = std::ranges::find(counters, field, [](const auto& counter) { return counter.name; });
  return found == counters.end() ? nullptr : &(this->*(found->field));
}

void Counted::set(Counter counter, std::int64_t number) {
  const auto known = std::ranges::find(settings(), counter, &Setting::counter);
  const auto place = static_cast<std::size_t>(known - settings().begin());
  settings_[place] = {counter, number};
  if (place == count_) ++count_;
}

void Counted::set(const policy::UsageTotals& totals) {
  set(Counter::usage_totals, 0);
  totals_ = totals;
}

bool Counted::has(Counter counter) const {
  return std::ranges::find(settings(), counter, &Setting::counter) != settings().end();
}

std::optional<std::int64_t> Counted::number(Counter counter) const {
  const auto known = std::ranges::find(settings(), counter, &Setting::counter);
  return known == settings().end() ? std::nullopt : std::optional(known->number);
}

void Counted::write(json::ObjectWriter& out) const {
  for (const auto& [counter, number] : settings()) {
    if (counter == Counter::usage_totals)
      out.raw(totals_member, totals_->json());
    else
      out.integer(name_of(counter), number);
  }
}

std::size_t Counted::read(std::span<const json::Edit::Set> members) {
  std::size_t read = 0;
  for (const auto& [name, value] : members) {
    const auto named = std::ranges::find(counter_names, name);
    if (named == counter_names.end()) break;
    const auto counter = static_cast<Counter>(named - counter_names.begin());
    if (has(counter)) break;
    if (counter == Counter::usage_totals) {
      const auto totals = policy::read_totals(value);
      if (!totals || totals->json() != value) break;
      set(*totals);
    } else {
      const auto number = store::parse_number<std::int64_t>(value);
      const bool is_time = counter <= Counter::last_interaction_at;
      if (!number || (!is_time && (*number < 0 || *number > policy::most_counted))) break;
      if (value.front() == '-' && *number == 0) break;
      set(counter, *number);
    }
    ++read;
  }
  return read;
}

std::optional<Counted> Counted::only(const json::Edit& edit) {
  Counted counted;
  if (!edit.unset.empty() || counted.read(edit.set) != edit.set.size()) return {};
  return counted;
}

void Counted::add_to(json::Edit& edit) const {
  for (const auto& [counter, number] : settings())
    edit.put(std::string(name_of(counter)),
             counter == Counter::usage_totals ? totals_->json() : store::decimal(number));
}

void CountedEdit::set(const policy::UsageTotals& totals) {
  if (totals.is_sum())
    counted.set(totals);
  else
    rest.put(std::string(totals_member), totals.json());
}

void CountedEdit::add_to(json::Edit& edit) const {
  counted.add_to(edit);
  for (const auto& [name, value] : rest.set) edit.put(name, value);
  for (const std::string& name : rest.unset) edit.remove(name);
}

Session::Session(std::string key, sessions::RawEntry entry) : entry_(std::move(entry)) {
  std::string topic(store::parse_key(key).topic);
  key_ = std::make_shared<const Key>(std::move(key), std::move(topic));
  read_fields();
}

std::string Session::own_topic() const {
  if (!key_->topic.empty() || session_file.empty()) return key_->topic;
  const std::string_view file = std::string_view(session_file).substr(session_file.find_last_of('/') + 1);
  auto topic = store::topic_of_file(session_id, file);
  const bool is_own = topic && store::lower_key(key()).ends_with(":" + store::lower_key(*topic));
  return is_own ? *std::move(topic) : "";
}

const sessions::RawEntry& Session::entry() const {
  if (moved_.count != 0) {
    json::Edit edit;
    edit.set.reserve(moved_.count);
    for (const Counter counter : std::span(moved_.counters).first(std::exchange(moved_.count, 0)))
      edit.set.push_back({std::string(name_of(counter)), moved_text(counter)});
    replace_entry(json::apply(*entry_, edit));
  }
  return entry_;
}

const ShownEntry& Session::shown() const {
  const sessions::RawEntry& now = entry();
  if (!shown_) shown_ = std::make_shared<const ShownEntry>(now, sdk_session_id);
  return *shown_;
}

void Session::replace_entry(std::string entry) const {
  entry_ = std::make_shared<const std::string>(std::move(entry));
  shown_.reset();
}

void Session::edit(const json::Edit& edit) {
  if (const auto counted = Counted::only(edit)) return count(*counted);
  replace_entry(json::apply(*entry(), edit));
  const auto is_joined = [](const auto& member) { return std::ranges::find(joined, member.name) != joined.end(); };
  if (!edit.unset.empty() || std::ranges::any_of(edit.set, is_joined)) return read_fields();
  for (const auto& member : edit.set) take_field(member.name, member.value);
}

void Session::count(const Counted& counted) {
  for (const auto& [counter, number] : counted.settings()) {
    const auto place = static_cast<std::size_t>(counter);
    if (counter == Counter::updated_at)
      updated_at = number;
    else if (counter == Counter::last_interaction_at)
      last_interaction_at = number;
    else if (counter == Counter::usage_totals)
      usage_totals = counted.totals_;
    else
      this->*(counters[place - 2].field) = number;
    const auto known = std::span(moved_.counters).first(moved_.count);
    if (std::ranges::find(known, counter) == known.end()) moved_.counters[moved_.count++] = counter;
  }
}

std::string Session::moved_text(Counter counter) const {
  if (counter == Counter::updated_at) return store::decimal(updated_at);
  if (counter == Counter::last_interaction_at) return store::decimal(*last_interaction_at);
  if (counter == Counter::usage_totals) return usage_totals->json();
  return store::decimal(*(this->*(counters[static_cast<std::size_t>(counter) - 2].field)));
}

// Reads a member that alone makes a field. Ignores others.
void Session::take_field(std::string_view field, std::string_view value) {
  const auto text = std::ranges::find(texts, field, [](const auto& one) { return one.name; });
  if (text != texts.end())
    this->*(text->field) = json::as_string(value).value_or("");
  else if (field == "rev")
    rev = static_cast<std::uint64_t>(std::max<std::int64_t>(json::as_int(value).value_or(0), 0));
  else if (field == "updatedAt")
    updated_at = json::as_int(value).value_or(0);
  else if (field == "archivedAt")
    archived_at = json::as_int(value);
  else if (field == "lastInteractionAt")
    last_interaction_at = json::as_int(value);
  else if (auto* counter = find(field))
    *counter = policy::counted(value);
  else if (field == totals_member)
    usage_totals = policy::read_totals(value);
  else if (field == fresh_member)
    tokens_fresh = json::as_bool(value);
  else if (field == "contextTokens")
    context_tokens = json::as_int(value).value_or(0);
  else if (field == "ephemeral")
    ephemeral = json::as_bool(value).value_or(false);
  else if (field == "firstMessage")
    has_first_message = json::kind(value) == json::Kind::string;
  else if (field == "copiedFrom")
    copied_from = read_copied_from(value);
  else if (field == "guardrails" || field == "turnCap")
    has_policy = true;
  else if (field == "needs")
    needs = json::kind(value) == json::Kind::array && value != "[]" ? value : "";
}

void Session::read_fields() {
  static_cast<Counters&>(*this) = {};
  session_id = session_file = channel = chat_type = label = name = slug = spawned_by = needs = channels = {};
  copied_from.clear();
  archived_at = last_interaction_at = started_at = {};
  rev = 0;
  const std::int64_t chosen = std::exchange(created_at, 0);
  updated_at = 0;
  ephemeral = false;
  has_policy = false;
  has_first_message = false;
  context_tokens = 0;
  std::string legacy_channel;
  std::string last_channel;
  MessageChannels reached;
  SdkSessionId sdk;
  for (const json::Member& member : json::members(*entry_)) {
    // Foreign entries may spell a name with escapes: "upd\u0061tedAt" is one of ours.
    const std::string unescaped = member.name.contains('\\') ? json::unescape(member.name) : std::string();
    const std::string_view field = unescaped.empty() ? member.name : unescaped;
    const auto lowered = [&] { return store::lower(store::trim(json::as_string(member.value).value_or(""))); };
    if (field == "channel")
      channel = lowered();
    else if (field == "provider")
      legacy_channel = lowered();
    else if (field == "lastChannel" || (field == "lastProvider" && last_channel.empty()))
      last_channel = lowered();
    else if (field == "origin")
      reached.take_origin(member.value);
    else if (field == "channels")
      reached.take_named(member.value);
    else if (field == "chatType")
      chat_type = json::as_string(member.value).value_or("");
    else if (field == "createdAt")
      created_at = json::as_int(member.value).value_or(0);  // 0: see below
    else if (field == "sessionStartedAt")
      started_at = json::as_int(member.value);
    else if (!sdk.take(field, member.value))
      take_field(field, member.value);
  }
  sdk_session_id = sdk.id();
  if (chat_type == "dm") chat_type = "direct";
  if (channel.empty()) channel = legacy_channel;
  const store::KeyParts parts = store::parse_key(key());
  if (channel.empty()) channel = store::lower(parts.channel);
  if (channel.empty() && reached.named().size() == 1) channel = reached.named().front();
  if (channel.empty()) channel = last_channel;
  channels = MessageChannels::text_of(reached.list(last_channel, channel));
  if (chat_type.empty()) chat_type = store::lower(parts.chat_type);
  // If the entry does not say when it was made, a time is chosen once and kept.
  if (!started_at && created_at != 0) started_at = created_at;
  if (created_at == 0) created_at = started_at.value_or(0) != 0 ? *started_at : chosen != 0 ? chosen : updated_at;
}

}  // namespace sessiond::decide
