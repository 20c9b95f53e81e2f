// Writes the file of a session of Claude Code.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "formats/claude_code.hpp"
#include "formats/document.hpp"
#include "policy/context/entry.hpp"
#include "transcripts/entry.hpp"

namespace sessiond::formats {
namespace {

using json::Kind;

// The version of Claude Code whose files these are like.
constexpr std::string_view like_version = "2.1.197";

bool is_uuid(std::string_view text) {
  if (text.size() != 36) return false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool dash = at == 8 || at == 13 || at == 18 || at == 23;
    if (dash ? text[at] != '-' : std::string_view("0123456789abcdef").find(text[at]) == std::string_view::npos)
      return false;
  }
  return true;
}

void append_block(std::string& blocks, std::string_view block) {
  if (!block.empty()) blocks.append(blocks.empty() ? "" : ",").append(block);
}

std::string claude_block(std::string_view part) {
  const std::string type = json::string_at(part, "type").value_or("");
  const auto text = [&part](std::string_view name) { return member(part, name, Kind::string); };
  if (type == "toolCall" && text("id") && text("name"))
    return fmt::format(R"({{"type":"tool_use","id":{},"name":{},"input":{}}})", *text("id"), *text("name"),
                       member(part, "arguments", Kind::object).value_or("{}"));
  if (type == "image" && text("data") && text("mimeType"))
    return fmt::format(R"({{"type":"image","source":{{"type":"base64","media_type":{},"data":{}}}}})",
                       *text("mimeType"), *text("data"));
  if ((type == "text" || type == "input_text" || type == "output_text") && text("text"))
    return *text("text") == "\"\"" ? "" : fmt::format(R"({{"type":"text","text":{}}})", *text("text"));
  if (type == "toolResult" && text("toolCallId")) {
    std::string content;
    const auto parts = json::find(part, "content").value_or("[]");
    for (const std::string_view one : json::elements(parts)) append_block(content, claude_block(one));
    return fmt::format(R"({{"type":"tool_result","tool_use_id":{},"content":{},"is_error":{}}})", *text("toolCallId"),
                       json::kind(parts) == Kind::string ? std::string(parts) : "[" + content + "]",
                       json::find(part, "isError") == "true");
  }
  if (type == "tool_use" || type == "tool_result") return std::string(part);
  return "";  // the API refuses what it does not know; thinking is only valid with the signature of the model that goes
              // on
}

// The name of what a message has that Claude Code has no place for.
std::string name_of_part(std::string_view part) {
  const std::string type = json::string_at(part, "type").value_or("");
  if (type == "thinking" || type == "redacted_thinking") return "thinking";
  return type == "image" ? "picture that is kept elsewhere" : fmt::format("part of type \"{}\"", type);
}

// Calls that stand beside the content, as OpenAI spells them.
std::string calls_beside(std::string_view message) {
  std::string blocks;
  for (const context::ToolCall& call : context::read_entry("message", message).calls)
    if (call.spelling == context::Spelling::openai)
      append_block(blocks, fmt::format(R"({{"type":"tool_use","id":{},"name":{},"input":{}}})", json::quote(call.id),
                                       json::quote(call.name), arguments_of(call.arguments)));
  return blocks;
}

std::string summary_id(std::string_view id) { return std::string(id) + "/summary"; }

bool has_elements(std::string_view message, std::string_view name) {
  const auto list = member(message, name, Kind::array);
  return list && json::elements(*list).begin() != std::default_sentinel;
}

}  // namespace

std::string ClaudeCodeFile::blocks_of(std::string_view content) {
  std::string blocks;
  if (json::kind(content) == Kind::string && content != "\"\"")
    append_block(blocks, fmt::format(R"({{"type":"text","text":{}}})", content));
  for (const std::string_view part : json::elements(content)) {
    const std::string block = claude_block(part);
    if (block.empty() && json::string_at(part, "text") != "") leave_out(name_of_part(part));
    append_block(blocks, block);
  }
  return blocks;
}

ClaudeCodeFile::ClaudeCodeFile(std::string_view session_id, std::string cwd)
    : session_id_(is_uuid(session_id) ? std::string(session_id) : derived_uuid(session_id)), cwd_(std::move(cwd)) {}

std::filesystem::path ClaudeCodeFile::path() const {
  std::string folder;
  for (const char c : cwd_) {
    const bool kept = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    const auto byte = static_cast<unsigned char>(c);
    const bool goes_on = (byte & 0xC0) == 0x80;  // of a character that is there already
    if (kept || !goes_on) folder += kept ? c : '-';
    if (byte >= 0xF0) folder += '-';  // one for each UTF-16 unit
  }
  return std::filesystem::path("projects") / folder / (session_id_ + ".jsonl");
}

std::string ClaudeCodeFile::uuid_of(std::string_view id) const {
  return is_uuid(id) ? std::string(id) : derived_uuid(session_id_ + "\n" + std::string(id));
}

std::string ClaudeCodeFile::head(std::string_view type, std::string_view id, std::string_view time) {
  std::string uuid = uuid_of(id);
  std::string out = fmt::format(
      R"("parentUuid":{},"isSidechain":false,"userType":"external","cwd":{},"sessionId":"{}","version":"{}","gitBranch":"","type":"{}","uuid":"{}","timestamp":"{}")",
      parent_.empty() ? "null" : json::quote(parent_), json::quote(cwd_), session_id_, like_version, type, uuid, time);
  parent_ = uuid;
  uuids_.push_back(std::move(uuid));
  return out;
}

std::string ClaudeCodeFile::user_line(std::string_view message, std::string_view id, std::string_view time) {
  const std::string blocks = blocks_of(json::find(message, "content").value_or("[]"));
  if (blocks.empty()) return "";
  const bool meta = json::find(message, "synthetic") == "true";
  return fmt::format("{{{}{},\"message\":{{\"role\":\"user\",\"content\":[{}]}}}}\n", head("user", id, time),
                     meta ? ",\"isMeta\":true" : "", blocks);
}

std::string ClaudeCodeFile::assistant_line(std::string_view message, std::string_view id, std::string_view time) {
  std::string blocks = blocks_of(json::find(message, "content").value_or("[]"));
  append_block(blocks, calls_beside(message));
  if (blocks.empty()) return "";
  const std::string stop = json::string_at(message, "stopReason").value_or("");
  const auto usage = member(message, "usage", Kind::object).value_or("{}");
  const auto count = [&usage](std::string_view name) { return json::int_at(usage, name).value_or(0); };
  const std::string uuid = uuid_of(id);
  return fmt::format(
      R"({{{},"message":{{"id":"msg_{}","type":"message","role":"assistant","model":{},"content":[{}],"stop_reason":"{}","stop_sequence":null,)"
      R"("usage":{{"input_tokens":{},"output_tokens":{},"cache_read_input_tokens":{},"cache_creation_input_tokens":{}}}}}}})"
      "\n",
      head("assistant", id, time), uuid, json::quote(json::string_at(message, "model").value_or("")), blocks,
      stop == "toolUse"  ? "tool_use"
      : stop == "length" ? "max_tokens"
                         : "end_turn",
      count("input"), count("output"), count("cacheRead"), count("cacheWrite"));
}

std::string ClaudeCodeFile::result_line(std::string_view message, std::string_view id, std::string_view time) {
  const context::Entry spoken = context::read_entry("message", message);
  if (spoken.results.empty() || spoken.results.front().call_id.empty()) return "";
  const std::string& call = spoken.results.front().call_id;
  return fmt::format(
      "{{{},\"message\":{{\"role\":\"user\",\"content\":[{{\"type\":\"tool_result\",\"tool_use_id\":{},\"content\":[{}]"
      ",\"is_error\":{}}}]}}}}\n",
      head("user", id, time), json::quote(call), blocks_of(json::find(message, "content").value_or("[]")),
      json::find(message, "isError") == "true");
}

std::string ClaudeCodeFile::compaction_lines(std::string_view entry, std::string_view id, std::string_view time) {
  const auto summary = member(entry, "summary", Kind::string);
  if (!summary) return "";
  const std::string kept = preserved(json::string_at(entry, "firstKeptEntryId").value_or(""), id);
  const std::string before = std::exchange(parent_, "");
  std::string out = fmt::format(
      "{{{},\"subtype\":\"compact_boundary\",\"content\":\"Conversation "
      "compacted\",\"isMeta\":false,\"level\":\"info\",\"logicalParentUuid\":{},"
      "\"compactMetadata\":{{\"trigger\":\"manual\",\"preTokens\":{}{}}}}}\n",
      head("system", id, time), before.empty() ? "null" : json::quote(before),
      json::int_at(entry, "tokensBefore").value_or(0), kept);
  out += fmt::format(
      "{{{},\"isCompactSummary\":true,\"isVisibleInTranscriptOnly\":true,\"message\":{{\"role\":\"user\",\"content\":{}"
      "}}}}\n",
      head("user", summary_id(id), time), *summary);
  behind_summary_ = uuids_.size();
  return out;
}

// Returns the member that names the lines which a summary keeps: Claude Code shows them behind it. It follows their
// parents from the last line to the first, and stops at an earlier summary, so the first one stands behind that.
std::string ClaudeCodeFile::preserved(std::string_view kept_entry, std::string_view id) const {
  const auto kept = lines_.find(kept_entry);
  if (kept == lines_.end()) return {};
  const std::size_t first = std::max(kept->second.first, behind_summary_);
  if (first >= uuids_.size()) return {};
  return fmt::format(R"(,"preservedSegment":{{"headUuid":"{}","anchorUuid":"{}","tailUuid":"{}"}})", uuids_[first],
                     uuid_of(summary_id(id)), uuids_.back());
}

// Returns the line of an entry that OpenClaw shows to its model, though no person wrote it; "" if it is another entry.
std::string ClaudeCodeFile::note_line(std::string_view type, std::string_view entry, std::string_view id,
                                      std::string_view time) {
  const context::Entry note = context::read_entry(type, entry);
  if (note.role != context::Role::user || note.content.empty()) return "";
  return user_line(fmt::format(R"({{"role":"user","content":{},"synthetic":true}})", note.content), id, time);
}

std::string ClaudeCodeFile::written(std::string_view entry, std::string_view id, std::string_view time) {
  const std::string type = json::string_at(entry, "type").value_or("");
  const auto message = member(entry, "message", Kind::object);
  if (type == "compaction") return compaction_lines(entry, id, time);
  if (type != "message" || !message) {
    if (std::string line = note_line(type, entry, id, time); !line.empty()) return line;
    const std::string kind = type == "custom" ? json::string_at(entry, "customType").value_or(type) : type;
    if (!kind.empty()) leave_out("entry of type " + kind);
    return "";
  }
  for (const char* list : {"attachments", "mediaUrls", "media", "files"})
    if (has_elements(*message, list)) leave_out(fmt::format("\"{}\" of a message", list));
  const std::string role = json::string_at(*message, "role").value_or("");
  std::string out = role == "user"                           ? user_line(*message, id, time)
                    : role == "assistant"                    ? assistant_line(*message, id, time)
                    : role == "toolResult" || role == "tool" ? result_line(*message, id, time)
                                                             : "";
  if (out.empty()) leave_out(fmt::format("message of role \"{}\" without anything to show", role));
  return out;
}

std::string ClaudeCodeFile::lines(std::string_view entry) {
  const std::string id = json::string_at(entry, "id").value_or("");
  const auto parent = lines_.find(json::string_at(entry, "parentId").value_or(""));
  parent_ = parent == lines_.end() || parent->second.end == 0 ? "" : uuids_[parent->second.end - 1];
  const std::size_t first = uuids_.size();
  const std::size_t before = parent == lines_.end() ? 0 : parent->second.end;
  std::string out = written(entry, id, json::string_at(entry, "timestamp").value_or(transcripts::iso_time(0)));
  lines_.insert_or_assign(id, Lines{.first = first, .end = uuids_.size() > first ? uuids_.size() : before});
  return out;
}

}  // namespace sessiond::formats
