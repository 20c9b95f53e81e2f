#include "transcripts/changes.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "policy/context/entry.hpp"
#include "store/json/raw_json.hpp"
#include "transcripts/entry.hpp"

namespace sessiond::transcripts {
namespace {

// Returns who reacted: the name, or the id that the platform gave them.
std::string who(std::string_view from) {
  if (const auto name = json::as_string(from)) return *name;
  return json::kind(from) == json::Kind::object ? json::string_at(from, "id").value_or("") : "";
}

void begin_member(std::string& object, std::string_view name) {
  if (object.back() != '{') object += ',';
  json::append_quoted(object, name);
  object += ':';
}

}  // namespace

std::string transcript_name(std::string_view session_id, const std::optional<std::string>& topic) {
  return std::string(session_id).append(1, '\n').append(topic.value_or(""));
}

void Changes::add(std::string_view line, std::uint64_t seq) {
  const std::string type = json::string_at(line, "customType").value_or("");
  constexpr std::string_view prefix = "sessiond.";
  if (!type.starts_with(prefix)) return;
  const std::string_view what = std::string_view(type).substr(prefix.size());
  if (what != "edit" && what != "delete" && what != "reaction") return;
  const std::string_view data = json::find(line, "data").value_or("{}");
  const std::string_view target =
      json::kind(data) == json::Kind::object ? json::find(data, "target").value_or("{}") : std::string_view("{}");
  if (json::kind(target) != json::Kind::object) return;
  const auto id = json::string_at(target, "id");
  const auto session_id = json::string_at(target, "sessionId");
  if (!id || !session_id) return;
  Change& change = by_transcript_[transcript_name(*session_id, json::string_at(target, "topic"))][*id];
  if (what == "edit") {
    change.edit = seq;
  } else if (what == "delete") {
    change.deleted = true;
  } else if (const auto emoji = json::string_at(data, "emoji")) {
    change.reactions[*emoji][who(json::find(data, "from").value_or("null"))] =
        !json::as_bool(json::find(data, "removed").value_or("false")).value_or(false);
  }
}

const Changes::ById* Changes::of(std::string_view transcript_name) const {
  const auto found = by_transcript_.find(transcript_name);
  return found == by_transcript_.end() ? nullptr : &found->second;
}

std::string Changes::to_json() const {
  std::string out = "{";
  for (const auto& [name, changes] : by_transcript_) {
    begin_member(out, name);
    out += '{';
    for (const auto& [id, change] : changes) {
      begin_member(out, id);
      out += change.deleted ? R"({"deleted":true)" : R"({"deleted":false)";
      if (change.edit) out += fmt::format(R"(,"edit":{})", *change.edit);
      out += R"(,"reactions":{)";
      for (const auto& [emoji, people] : change.reactions) {
        begin_member(out, emoji);
        out += '{';
        for (const auto& [person, stands] : people) {
          begin_member(out, person);
          out += stands ? "true" : "false";
        }
        out += '}';
      }
      out += "}}";
    }
    out += '}';
  }
  return out + "}";
}

Changes Changes::from_json(std::string_view text) {
  Changes out;
  for (const json::Member& transcript : json::members(text)) {
    ById& changes = out.by_transcript_[json::unescape(transcript.name)];
    for (const json::Member& entry : json::members(transcript.value)) {
      Change& change = changes[json::unescape(entry.name)];
      if (const auto edit = json::int_at(entry.value, "edit")) change.edit = static_cast<std::uint64_t>(*edit);
      change.deleted = json::find(entry.value, "deleted") == "true";
      for (const json::Member& emoji : json::members(json::find(entry.value, "reactions").value_or("{}")))
        for (const json::Member& person : json::members(emoji.value))
          change.reactions[json::unescape(emoji.name)][json::unescape(person.name)] = person.value == "true";
    }
  }
  return out;
}

void add_later(ShownChanges& onto, const ShownChanges& later) {
  for (const auto& [id, change] : later) {
    ShownChange& there = onto[id];
    if (!change.edit.empty()) there.edit = change.edit;
    there.deleted = there.deleted || change.deleted;
    for (const auto& [emoji, people] : change.reactions)
      for (const auto& [person, stands] : people) there.reactions[emoji][person] = stands;
  }
}

std::string edit_in(std::string_view line) {
  std::string held;
  return std::string(json::find(json::as_sent(line, held), "data").value_or(""));
}

std::string edited_text(const ShownChange& change) {
  if (const auto content = json::find(change.edit, "content")) return text_of(*content);
  return json::string_at(change.edit, "text").value_or("");
}

std::optional<std::string> changed_message(std::string_view message, const ShownChange& change) {
  json::Edit edit;
  const std::string_view content = json::find(message, "content").value_or("\"\"");
  if (change.deleted) {
    if (context::read_entry("message", message).calls.empty()) return {};
    std::string rest = with_text(content, "");
    edit.put("content", rest.empty() ? "\"\"" : std::move(rest));
  } else if (!change.edit.empty()) {
    const auto whole = json::find(change.edit, "content");
    edit.put("content", whole ? std::string(*whole) : with_text(content, edited_text(change)));
    edit.put("edited", "true");
  } else {
    return std::string(message);
  }
  if (json::find(message, "text")) edit.remove("text");
  return json::apply(message, edit);
}

std::string reactions_member(const ShownChange& change) {
  std::string list;
  for (const auto& [emoji, people] : change.reactions) {
    const auto count = std::ranges::count_if(people, [](const auto& one) { return one.second; });
    if (count == 0) continue;
    list += list.empty() ? "" : ",";
    list += fmt::format(R"({{"emoji":{},"count":{}}})", json::quote(emoji), count);
  }
  return list.empty() ? "" : ",\"reactions\":[" + list + "]";
}

}  // namespace sessiond::transcripts
