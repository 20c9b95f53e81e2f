#include "transcripts/changes.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "policy/context/entry.hpp"
#include "policy/overflow.hpp"
#include "store/json/raw_json.hpp"
#include "transcripts/entry.hpp"
#include "transcripts/entry_shape.hpp"

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

std::optional<ChangeTarget> target_in(std::string_view line) {
  constexpr std::string_view prefix = "sessiond.";
  if (!line.contains(prefix)) return {};
  const std::string type = json::string_at(line, "customType").value_or("");
  ChangeTarget out;
  for (const std::string_view what : {"edit", "delete", "reaction"})
    if (type.starts_with(prefix) && std::string_view(type).substr(prefix.size()) == what) out.what = what;
  if (out.what.empty()) return {};
  const std::string_view data = json::find(line, "data").value_or("{}");
  const std::string_view target =
      json::kind(data) == json::Kind::object ? json::find(data, "target").value_or("{}") : std::string_view("{}");
  if (json::kind(target) != json::Kind::object) return {};
  const auto id = json::string_at(target, "id");
  const auto session_id = json::string_at(target, "sessionId");
  if (!id || !session_id) return {};
  out.origin = transcript_name(*session_id, json::string_at(target, "topic"));
  out.id = *id;
  return out;
}

void Changes::add(std::string_view line, std::uint64_t seq) {
  const auto target = target_in(line);
  if (!target) {
    has_copies_ = has_copies_ || json::string_at(line, "customType") == "sessiond.copied";
    return;
  }
  Change& change = by_transcript_[target->origin][target->id];
  if (target->what == "edit") {
    change.edit = seq;
  } else if (target->what == "delete") {
    if (!change.deleted) change.deleted = seq;
  } else {
    const std::string_view data = json::find(line, "data").value_or("{}");
    if (const auto emoji = json::string_at(data, "emoji"))
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
      out += change.deleted ? fmt::format(R"({{"deleted":{})", *change.deleted) : R"({"deleted":null)";
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
      if (const auto deleted = json::int_at(entry.value, "deleted"))
        change.deleted = static_cast<std::uint64_t>(*deleted);
      for (const json::Member& emoji : json::members(json::find(entry.value, "reactions").value_or("{}")))
        for (const json::Member& person : json::members(emoji.value))
          change.reactions[json::unescape(emoji.name)][json::unescape(person.name)] = person.value == "true";
    }
  }
  return out;
}

void add_later(ShownChange& onto, ShownChange later) {
  if (!later.edit.empty()) onto.edit = std::move(later.edit);
  onto.deleted = onto.deleted || later.deleted;
  if (later.at) onto.at = later.at;
  for (const auto& [emoji, people] : later.reactions)
    for (const auto& [person, stands] : people) onto.reactions[emoji][person] = stands;
}

void ShownChanges::add(std::string_view origin, const std::string& id, ShownChange later) {
  auto there = by_origin_.find(origin);
  if (there == by_origin_.end()) there = by_origin_.try_emplace(std::string(origin)).first;
  add_later(there->second[id], std::move(later));
}

const ShownChange* ShownChanges::of(std::uint64_t seq, std::string_view id) const {
  return by_origin_.empty() ? nullptr : of_origin(origins_.at(seq), id);
}

const ShownChange* ShownChanges::of_origin(std::string_view origin, std::string_view id) const {
  const auto there = by_origin_.find(origin);
  if (there == by_origin_.end()) return nullptr;
  const auto change = there->second.find(id);
  return change == there->second.end() ? nullptr : &change->second;
}

std::string edit_in(std::string_view line) {
  std::string held;
  return std::string(json::find(json::as_sent(line, held), "data").value_or(""));
}

std::string edited_text(const ShownChange& change) {
  if (const auto content = json::find(change.edit, "content")) return text_of(*content);
  return json::string_at(change.edit, "text").value_or("");
}

namespace {

// A content with another text in place of its own; "" where nothing is left of it.
std::string content_with(std::string_view content, std::string_view text) {
  std::string changed = with_text(content, text);
  return changed.empty() ? "\"\"" : changed;
}

}  // namespace

std::optional<std::string> changed_message(std::string_view message, const ShownChange& change) {
  json::Edit edit;
  const std::string_view content = json::find(message, "content").value_or("\"\"");
  if (change.deleted) {
    if (context::read_entry("message", message).calls.empty()) return {};
    edit.put("content", content_with(content, ""));
  } else if (!change.edit.empty()) {
    const auto whole = json::find(change.edit, "content");
    edit.put("content", whole ? std::string(*whole) : content_with(content, edited_text(change)));
    edit.put("edited", "true");
  } else {
    return std::string(message);
  }
  if (json::find(message, "text")) edit.remove("text");
  return json::apply(message, edit);
}

namespace {

std::string_view message_in(std::string_view line) {
  const EntryFields fields = read_fields(line);
  return fields.shape == EntryShape::nested ? fields.message : line;
}

}  // namespace

std::vector<std::string> dropped_in(std::string_view line) {
  std::vector<std::string> ids;
  if (!line.contains(R"("dropped")")) return ids;  // a first look
  const std::string_view message = message_in(line);
  const auto dropped = json::find(message, "dropped");
  if (!dropped || json::kind(*dropped) != json::Kind::array || json::find(message, "synthetic") != "true") return ids;
  for (const std::string_view id : json::elements(*dropped)) ids.push_back(json::as_string(id).value_or(""));
  return ids;
}

void add_retold(ShownChanges& changes, std::uint64_t seq, std::string_view id, std::string_view line) {
  if (changes.empty()) return;
  const std::vector<std::string> ids = dropped_in(line);
  if (ids.empty()) return;
  const auto told = policy::OverflowText::read(json::string_at(message_in(line), "content").value_or(""));
  if (!told || told->lines.size() != ids.size()) return;
  policy::OverflowText now{.dropped = told->dropped};
  ShownChange change;
  for (std::size_t at = 0; at < ids.size(); ++at) {
    const ShownChange* one = changes.of(seq, ids[at]);
    if (one != nullptr && (one->deleted || !one->edit.empty())) change.at = std::max(change.at, one->at);
    if (one != nullptr && one->deleted) {
      --now.dropped;
    } else {
      const bool is_edited = one != nullptr && !one->edit.empty();
      now.lines.push_back(is_edited ? policy::overflow_line(edited_text(*one)) : told->lines[at]);
    }
  }
  if (now.text() == told->text()) return;
  change.deleted = now.dropped <= 0;
  json::ObjectWriter edit;
  edit.string("text", now.text());
  change.edit = edit.text();
  changes.add(std::string(changes.origins().at(seq)), std::string(id), std::move(change));
}

std::optional<std::string> changed_line(std::string_view line, std::uint64_t seq, const ShownChanges& changes) {
  if (changes.empty()) return {};
  std::string held;
  const std::string_view sent = json::as_sent(line, held);
  if (const auto target = target_in(sent)) {
    const ShownChange* change = target->what == "edit" ? changes.of_origin(target->origin, target->id) : nullptr;
    const std::string_view data = json::find(sent, "data").value_or("{}");
    if (change == nullptr || (!change->deleted && change->edit == data)) return {};
    json::Edit edit;
    edit.put("data", json::apply(data, {.set = {}, .unset = {"text", "content"}}));
    return json::apply(sent, edit);
  }
  const ShownChange* change = changes.of(seq, entry_id(line, seq));
  const EntryFields fields = read_fields(sent);
  const bool is_nested = fields.shape == EntryShape::nested;
  if (change == nullptr || (!is_nested && fields.shape != EntryShape::flat)) return {};
  const std::string_view message = is_nested ? fields.message : sent;
  auto changed = changed_message(message, *change);
  json::Edit mark;
  if (change->deleted) {
    mark.put("deleted", "true");
    for (const char* name : {"attachments", "mediaUrls"}) mark.remove(name);
    if (!changed) {
      for (const char* name : {"content", "text"}) mark.remove(name);
      changed = std::string(message);
    }
  }
  changed = json::apply(*changed, mark);
  if (!is_nested) return changed;
  json::Edit edit;
  edit.put("message", *std::move(changed));
  return json::apply(sent, edit);
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
