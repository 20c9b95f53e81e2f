#include <fmt/format.h>

#include <array>

#include "formats/document.hpp"
#include "policy/context/view.hpp"
#include "store/json/raw_json.hpp"
#include "store/names.hpp"
#include "transcripts/conversation.hpp"
#include "transcripts/entry.hpp"
#include "transcripts/members.hpp"

namespace sessiond::formats {
namespace {

constexpr std::size_t first_message_points = 200;

std::string text_in(std::string_view message) {
  const auto content = json::find(message, "content");
  return content ? transcripts::text_of(*content) : json::string_at(message, "text").value_or("");
}

}  // namespace

ReadEntry::ReadEntry(std::string_view stored) {
  line = json::as_sent(stored, repaired_);
  fields = transcripts::read_fields(line);
  if (fields.shape == transcripts::EntryShape::unreadable) return;
  std::tie(type, body) = transcripts::spoken_of(fields, line, held_);
}

std::optional<std::string> ReadEntry::message(const transcripts::ShownChange* change) const {
  if (type != "message" || context::read_entry(type, body).role == context::Role::none) return std::nullopt;
  // A user's message that is nothing but results of tools is one of a user here: its role is written as it is.
  return change == nullptr ? std::string(body) : transcripts::changed_message(body, *change);
}

std::optional<std::int64_t> ReadEntry::time() const {
  const auto text = json::as_string(fields.timestamp);
  if (!text) return fields.timestamp.empty() ? std::nullopt : json::as_int(fields.timestamp);
  return transcripts::parse_iso_time(*text);
}

std::string_view ReadEntry::kept(std::string_view format) const {
  if (fields.shape != transcripts::EntryShape::nested) return {};
  const auto ours = json::find(line, "sessiond");
  const auto own = ours && transcripts::is_object(*ours) ? json::find(*ours, format) : std::nullopt;
  return own && transcripts::is_object(*own) ? *own : std::string_view();
}

std::string_view ReadEntry::history(std::string_view format) const {
  if (type != "custom" || json::string_at(line, "customType") != "sessiond.history") return {};
  const auto data = json::find(line, "data");
  const bool own = data && transcripts::is_object(*data) && json::string_at(*data, "format") == format;
  return own ? *data : std::string_view();
}

void Survey::add(const StoredEntry& stored) {
  const ReadEntry entry(stored.line);
  if (!first_time) first_time = entry.time();
  if (const std::string_view data = entry.history(format); !data.empty()) {
    last_history = stored.seq;
    if (json::find(data, "document")) document = data;
  }
  if (!stored.on_path) return;
  const context::Entry spoken = context::read_entry(entry.type, entry.body);
  if (entry.type == "compaction") {
    std::string text = context::summary_of({.type = entry.type, .body = std::string(entry.body)});
    summary = text.empty() ? std::nullopt : std::optional(std::move(text));
  }
  const auto message = entry.message(stored.change);
  if (!message) return;
  if (context::is_message(entry.type, spoken)) ++messages;
  if (!first_message.empty() || spoken.role != context::Role::user) return;
  const std::string text = text_in(*message);
  first_message = text.substr(0, store::code_points_end(text, first_message_points));
}

ShownSession::ShownSession(const SessionFacts& facts, const Survey& survey) {
  const json::Index entry(facts.entry);
  const auto time = [&entry](std::string_view field) -> std::optional<std::int64_t> {
    const auto value = entry.find(field);
    return value ? json::as_int(*value) : std::nullopt;
  };
  std::optional<std::int64_t> begun;
  if (const auto text = json::string_at(facts.header.empty() ? "{}" : facts.header, "timestamp"))
    begun = transcripts::parse_iso_time(*text);
  name = entry.string_at("name").value_or(facts.id);
  const auto changed = time("updatedAt");
  created = time("sessionStartedAt").value_or(begun.value_or(survey.first_time.value_or(changed.value_or(0))));
  updated = changed.value_or(created);
  active = time("lastInteractionAt").value_or(updated);
}

std::string kept_members(const Survey& survey, std::string_view name, const std::vector<std::string_view>& told) {
  const auto kept = survey.document.empty() ? std::nullopt : json::find(survey.document, name);
  if (!kept || !transcripts::is_object(*kept)) return {};
  const std::string members = other_members(*kept, told);
  return members.empty() ? members : "," + members;
}

std::string time_text(const Survey& survey, std::string_view name, std::int64_t ms) {
  const auto odd = survey.document.empty() ? std::nullopt : json::find(survey.document, "times");
  const auto text = odd && transcripts::is_object(*odd) ? json::string_at(*odd, name) : std::nullopt;
  return text && transcripts::parse_iso_time(*text) == ms ? *text : transcripts::iso_time(ms);
}

std::string odd_times(std::string_view object, std::initializer_list<std::string_view> names) {
  std::string out;
  for (const std::string_view name : names) {
    const auto text = json::string_at(object, name);
    const auto ms = text ? transcripts::parse_iso_time(*text) : std::nullopt;
    if (!ms || transcripts::iso_time(*ms) == *text) continue;
    out += fmt::format("{}\"{}\":{}", out.empty() ? "" : ",", name, json::quote(*text));
  }
  return out;
}

}  // namespace sessiond::formats
