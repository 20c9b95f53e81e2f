#include "formats/claude_lines.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "store/try.hpp"

namespace sessiond::formats {
namespace {

using json::Kind;

constexpr std::string_view claude_program = "claude-code";

template <class List>
bool is_in(const List& list, std::string_view one) {
  return std::ranges::find(list, one) != std::ranges::end(list);
}

bool is_boundary(const ClaudeLine& line) {
  return line.type == "system" && line.members.string_at("subtype") == "compact_boundary";
}

// The members that the entry has elsewhere.
bool has_its_place(std::string_view name) {
  constexpr std::array<std::string_view, 7> known = {"type",    "uuid",      "parentUuid",   "timestamp",
                                                     "message", "sessionId", "toolUseResult"};
  return is_in(known, name);
}

// Keeps the members of the line beside the message, as a member "claudeCode" of the entry.
std::string rest_of(std::string_view line) {
  std::string rest;
  for (const json::Member& each : json::members(line)) {
    if (has_its_place(each.name)) continue;
    rest += fmt::format(R"({}"{}":{})", rest.empty() ? "" : ",", each.name, json::compact(each.value));
  }
  return rest.empty() ? rest : fmt::format(R"("claudeCode":{{{}}})", rest);
}

std::string stop_reason(std::string_view message) {
  const std::string said = json::string_at(message, "stop_reason").value_or("");
  if (said == "tool_use") return "toolUse";
  if (said == "max_tokens" || said == "model_context_window_exceeded") return "length";
  if (said == "refusal") return "error";
  return "stop";
}

Tokens tokens_of(std::string_view message) {
  const auto usage = member(message, "usage", Kind::object);
  if (!usage) return {};
  const auto count = [&usage](std::string_view name) { return json::int_at(*usage, name).value_or(0); };
  return {.input = count("input_tokens"),
          .output = count("output_tokens"),
          .cache_read = count("cache_read_input_tokens"),
          .cache_write = count("cache_creation_input_tokens"),
          .known = true};
}

// Adds a part in Pi's spelling. Parts that Pi has no spelling for stay as they are.
void add_claude_part(Content& content, std::string_view part) {
  const std::string type = json::string_at(part, "type").value_or("");
  const auto text = [&part](std::string_view name) { return member(part, name, Kind::string); };
  if (type == "text" && text("text")) return content.text(*text("text"));
  if (type == "thinking" && text("thinking"))
    return content.thinking(*text("thinking"), text("signature").value_or(""));
  if (type == "redacted_thinking" && text("data")) return content.thinking("\"\"", *text("data"), true);
  if (type == "tool_use" && text("id") && text("name"))
    return content.call(*text("id"), *text("name"), json::compact(member(part, "input", Kind::object).value_or("{}")));
  if (type == "image") {
    const auto source = member(part, "source", Kind::object);
    const auto data = source ? member(*source, "data", Kind::string) : std::nullopt;
    const auto mime = source ? member(*source, "media_type", Kind::string) : std::nullopt;
    if (data && mime) return content.image(*data, *mime);
  }
  content.as_it_is(part);
}

}  // namespace

Result<void> ClaudeReader::end() {
  TRY(write_reply());
  TRY(write_boundary());
  if (!main_.empty()) out_.set_leaf(main_);
  return out_.end();
}

std::string ClaudeReader::parent_of(const ClaudeLine& line) const {
  const auto given = line.members.find("parentUuid");
  if (given == "null") return "";
  const std::string parent = given ? json::as_string(*given).value_or("") : "";
  if (const auto at = entry_of_uuid_.find(parent); at != entry_of_uuid_.end()) return at->second;
  return out_.has(parent) ? parent : main_;
}

Result<void> ClaudeReader::added(const ClaudeLine& line, Result<std::string> id) {
  if (!id) return std::unexpected(id.error());
  if (*id != line.uuid && !line.uuid.empty()) entry_of_uuid_.insert_or_assign(line.uuid, *id);
  if (!line.sidechain || of_subagent_) main_ = *id;
  return {};
}

Result<void> ClaudeReader::take(std::string_view text, std::uint64_t number) {
  if (text.empty()) return {};
  if (const auto why = not_an_object(text)) {
    out_.skip(line_place(number), "", *why);
    return {};
  }
  const ClaudeLine line(text, number);
  if (line.type.empty()) {
    out_.skip(line.place(), "/type", "is missing");
    return {};
  }
  if (!line.uuid.empty() &&
      (out_.has(line.uuid) || entry_of_uuid_.contains(line.uuid) || (reply_.open && is_in(reply_.uuids, line.uuid)))) {
    out_.skip(line.place(), "/uuid", "stands in an earlier line, too");
    return {};
  }
  if (keep_between(line)) return {};
  if (line.members.find("timestamp") && !line.time)
    out_.skip(line.place(), "/timestamp", "is no time; the line is taken, with the time of the one before");
  if (line.type != "assistant") TRY(write_reply());
  if (line.type == "user" || line.type == "assistant") return take_message(line);
  return take_other(line);
}

bool ClaudeReader::content_ok(const ClaudeLine& line, std::string_view content) {
  if (json::kind(content) == Kind::string) return true;
  if (json::kind(content) != Kind::array) {
    out_.skip(line.place(), "/message/content", "is neither a string nor an array");
    return false;
  }
  std::size_t index = 0;
  for (const std::string_view part : json::elements(content)) {
    if (json::kind(part) != Kind::object) {
      out_.skip(line.place(), fmt::format("/message/content/{}", index), "is not an object");
      return false;
    }
    ++index;
  }
  return true;
}

Result<void> ClaudeReader::take_message(const ClaudeLine& line) {
  const auto message = member(line.members, "message", Kind::object);
  const auto content = message ? json::find(*message, "content") : std::nullopt;
  if (!message || !content) {
    out_.skip(line.place(), message ? "/message/content" : "/message", message ? "is missing" : "is not an object");
    return {};
  }
  if (!content_ok(line, *content)) return {};
  if (line.type == "assistant") return take_assistant(line, *message, *content);
  TRY(const bool summary, take_summary(line, *content));
  if (summary) return {};
  return take_user(line, *message, *content);
}

Result<bool> ClaudeReader::take_summary(const ClaudeLine& line, std::string_view content) {
  if (!line.flag("isCompactSummary")) {
    TRY(write_boundary());
    return false;
  }
  std::string summary;
  if (json::kind(content) == Kind::string) summary = content;
  for (const std::string_view part : json::elements(content))
    if (const auto text = member(part, "text", Kind::string); text && summary.empty()) summary = *text;
  ForeignEntry entry = entry_of(line);
  std::string kept, details;
  std::int64_t before = 0;
  if (boundary_) {
    const ClaudeLine boundary(boundary_->text, boundary_->number);
    entry = entry_of(boundary);
    if (const auto after = boundary.members.string_at("logicalParentUuid")) {
      const auto at = entry_of_uuid_.find(*after);
      entry.parent = at != entry_of_uuid_.end() ? at->second : out_.has(*after) ? *after : main_;
    }
    if (const auto about = member(boundary.members, "compactMetadata", Kind::object)) {
      before = json::int_at(*about, "preTokens").value_or(0);
      const auto segment = member(*about, "preservedSegment", Kind::object);
      kept = segment ? json::string_at(*segment, "headUuid").value_or("") : "";
      if (const auto at = entry_of_uuid_.find(kept); at != entry_of_uuid_.end()) kept = at->second;
      details = fmt::format(R"(,"details":{})", json::compact(*about));
    }
  } else if (entry.parent == "") {
    entry.parent = main_;
  }
  if (kept.empty() || !out_.has(kept)) kept = entry.id;  // keeps none
  entry.type = "compaction";
  entry.body = fmt::format(R"("summary":{},"firstKeptEntryId":{},"tokensBefore":{}{})",
                           summary.empty() ? "\"\"" : summary, json::quote(kept), before, details);
  boundary_.reset();
  TRY(const auto id, out_.add(std::move(entry)));
  TRY(added(line, id));
  TRY(take_between());
  return true;
}

Result<void> ClaudeReader::take_user(const ClaudeLine& line, std::string_view message, std::string_view content) {
  const auto is_result = [](std::string_view part) { return json::string_at(part, "type") == "tool_result"; };
  if (std::ranges::any_of(json::elements(content), is_result)) return take_results(line, content);
  std::string parts;
  if (json::kind(content) == Kind::string) {
    parts = content;
  } else {
    Content made;
    for (const std::string_view part : json::elements(content)) add_claude_part(made, part);
    parts = made.take();
  }
  const bool person = !line.flag("isMeta");
  const std::string role = json::string_at(message, "role").value_or("user");
  return added(line, out_.message(fmt::format(R"("role":{},"content":{}{})", json::quote(role), parts,
                                              person ? "" : R"(,"synthetic":true)"),
                                  entry_of(line), rest_of(line.text)));
}

Result<void> ClaudeReader::add_result(const ClaudeLine& line, std::string_view part, ForeignEntry entry) {
  const std::string call = json::string_at(part, "tool_use_id").value_or("");
  const auto tool = tools_.find(call);
  Content content;
  const std::string_view given = json::find(part, "content").value_or("[]");
  if (json::kind(given) == Kind::string) content.text(given);
  for (const std::string_view each : json::elements(given)) add_claude_part(content, each);
  std::string members = fmt::format(R"("role":"toolResult","toolCallId":{},"toolName":{},"content":{},"isError":{})",
                                    json::quote(call), json::quote(tool == tools_.end() ? "" : tool->second),
                                    content.take(), json::find(part, "is_error") == "true");
  if (const auto details = line.members.find("toolUseResult"))
    members += fmt::format(R"(,"details":{})", json::compact(*details));
  if (tool != tools_.end()) tools_.erase(tool);
  // Calls that are made at once are answered one by one, each line naming the line of its call, or one behind that.
  const std::string parent = entry.parent.value_or("");
  if (chain_.contains(parent) || parent == tip_)
    entry.parent = tip_;
  else
    chain_ = {parent};
  TRY(tip_, out_.message(members, std::move(entry), rest_of(line.text)));
  return added(line, tip_);
}

Result<void> ClaudeReader::take_results(const ClaudeLine& line, std::string_view content) {
  Content others;
  std::size_t index = 0;
  ForeignEntry entry = entry_of(line);
  const auto next = [&] {  // what else the line says follows
    entry = entry_of(line);
    entry.id = fmt::format("{}.{}", line.uuid, ++index);
    entry.otherwise = fmt::format("line-{}.{}", line.number, index);
    entry.parent = tip_;
  };
  for (const std::string_view part : json::elements(content)) {
    if (json::string_at(part, "type") != "tool_result") {
      add_claude_part(others, part);
      continue;
    }
    if (!member(part, "tool_use_id", Kind::string)) {
      out_.skip(line.place(), "/message/content", "holds a tool_result without tool_use_id");
      continue;
    }
    TRY(add_result(line, part, entry));
    next();
  }
  if (others.empty()) return {};
  return added(line, out_.message(fmt::format(R"("role":"user","content":{})", others.take()), entry));
}

// Returns whether a line is a further part of the reply that is being read.
bool ClaudeReader::goes_on(const ClaudeLine& line, const std::string& message_id) const {
  if (!reply_.open || message_id.empty() || message_id != reply_.message_id) return false;
  const auto parent = line.members.string_at("parentUuid");
  return parent && (is_in(reply_.uuids, *parent) || is_in(between_.uuids, *parent));
}

// Keeps a line that may stand between others until those are written. Returns whether it did.
bool ClaudeReader::keep_between(const ClaudeLine& line) {
  constexpr std::size_t most = 4 << 20;  // bytes; behind so many they are taken as they come
  const bool is_message = line.type == "user" || line.type == "assistant";
  if ((!reply_.open && !boundary_) || is_message || is_boundary(line)) return false;
  if (between_.bytes + line.text.size() > most) return false;
  between_.bytes += line.text.size();
  between_.lines.push_back({.text = std::string(line.text), .number = line.number});
  if (!line.uuid.empty()) between_.uuids.push_back(line.uuid);
  return true;
}

Result<void> ClaudeReader::take_between() {
  for (const KeptLine& line : std::exchange(between_, {}).lines) TRY(take(line.text, line.number));
  return {};
}

Result<void> ClaudeReader::take_assistant(const ClaudeLine& line, std::string_view message, std::string_view content) {
  const std::string id = json::string_at(message, "id").value_or("");
  if (!goes_on(line, id)) {
    TRY(write_reply());
    TRY(write_boundary());
    reply_ = {};
    reply_.message_id = id;
    reply_.first_uuid = line.uuid;
    reply_.parent = parent_of(line);
    // The program may run the first calls of a reply before the model has made the others.
    reply_.goes_on = !id.empty() && id == last_message_ && chain_.contains(reply_.parent);
    if (reply_.goes_on) reply_.parent = tip_;
    reply_.rest = rest_of(line.text);
    reply_.time = line.time;
    reply_.place = fmt::format("line-{}", line.number);
    reply_.open = true;
    reply_.sidechain = line.sidechain;
  }
  reply_.uuids.push_back(line.uuid);
  if (line.uuid != reply_.first_uuid) entry_of_uuid_.insert_or_assign(line.uuid, reply_.first_uuid);
  reply_.model = json::string_at(message, "model").value_or("");
  reply_.stop = stop_reason(message);
  if (const Tokens tokens = tokens_of(message); tokens.known) reply_.tokens = tokens;
  if (json::kind(content) == Kind::string) reply_.content.text(content);
  for (const std::string_view part : json::elements(content)) {
    add_claude_part(reply_.content, part);
    const auto call = json::string_at(part, "id");
    if (json::string_at(part, "type") == "tool_use" && call) tools_[*call] = json::string_at(part, "name").value_or("");
    if (line.flag("isApiErrorMessage")) reply_.error = json::string_at(part, "text").value_or("");
  }
  return {};
}

Result<void> ClaudeReader::write_reply() {
  if (!std::exchange(reply_.open, false)) return {};
  const bool counted = !reply_.message_id.empty() && reply_.message_id == last_message_;
  std::string members =
      fmt::format(R"("role":"assistant","content":{},"api":"anthropic-messages","provider":"anthropic","model":{},)"
                  R"("usage":{},"stopReason":"{}")",
                  reply_.content.take(), json::quote(reply_.model), usage_json(counted ? Tokens{} : reply_.tokens),
                  reply_.error.empty() ? reply_.stop : "error");
  if (!reply_.error.empty()) members += fmt::format(R"(,"errorMessage":{})", json::quote(reply_.error));
  if (!reply_.message_id.empty()) members += fmt::format(R"(,"responseId":{})", json::quote(reply_.message_id));
  last_message_ = reply_.message_id;
  TRY(const auto id,
      out_.message(members,
                   {.id = reply_.first_uuid, .otherwise = reply_.place, .parent = reply_.parent, .time = reply_.time},
                   reply_.rest));
  if (id != reply_.first_uuid)
    for (const std::string& uuid : reply_.uuids) entry_of_uuid_.insert_or_assign(uuid, id);
  if (!reply_.sidechain || of_subagent_) main_ = id;
  if (!reply_.goes_on) chain_.clear();
  chain_.insert(id);
  tip_ = id;
  return take_between();
}

// A boundary that no summary followed.
Result<void> ClaudeReader::write_boundary() {
  if (!boundary_) return {};
  const KeptLine kept = *std::exchange(boundary_, std::nullopt);
  const ClaudeLine line(kept.text, kept.number);
  TRY(added(line, out_.custom(claude_program, line.type, json::compact(line.text), entry_of(line))));
  return take_between();
}

Result<void> ClaudeReader::take_other(const ClaudeLine& line) {
  if (is_boundary(line)) {
    TRY(write_boundary());
    boundary_ = KeptLine{.text = std::string(line.text), .number = line.number};
    return {};
  }
  TRY(write_boundary());
  ForeignEntry entry = entry_of(line);
  if (line.uuid.empty()) entry.parent = main_;
  const auto title = line.type == "custom-title" ? line.members.string_at("customTitle")
                     : line.type == "ai-title"   ? line.members.string_at("aiTitle")
                                                 : std::nullopt;
  const bool hangs_on_reply = chain_.contains(entry.parent.value_or(""));
  if (title) {
    entry.type = "session_info";
    entry.body = fmt::format(R"("name":{})", json::quote(*title));
  }
  TRY(const auto id, title ? out_.add(std::move(entry))
                           : out_.custom(claude_program, line.type, json::compact(line.text), std::move(entry)));
  if (hangs_on_reply) chain_.insert(id);
  return added(line, id);
}

}  // namespace sessiond::formats
