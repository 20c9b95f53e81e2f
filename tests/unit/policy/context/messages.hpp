// Messages of a conversation, as short as a test can name them, and what a view shows of them.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "policy/context/tool_pairs.hpp"
#include "policy/context/view.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::testing {

inline std::string said(std::string_view role, std::string_view text, std::string_view more = {}) {
  return fmt::format(R"({{"role":"{}","content":{}{}}})", role, json::quote(text), more);
}
inline std::string user(std::string_view text = "hi") { return said("user", text); }
inline std::string assistant(std::string_view text = "hello") { return said("assistant", text); }
inline std::string system_says(std::string_view text = "be kind") { return said("system", text); }
inline std::string synthetic(std::string_view text = "warning") { return said("user", text, R"(,"synthetic":true)"); }

inline std::string pi_call(std::string_view id, std::string_view name = "ls", std::string_view arguments = "{}") {
  return fmt::format(R"({{"type":"toolCall","id":"{}","name":"{}","arguments":{}}})", id, name, arguments);
}
// An assistant's message of parts, comma between them.
inline std::string calls(std::string_view parts) {
  return fmt::format(R"({{"role":"assistant","content":[{}]}})", parts);
}
inline std::string call(std::string_view id, std::string_view name = "ls", std::string_view arguments = "{}") {
  return calls(pi_call(id, name, arguments));
}
inline std::string result(std::string_view id, std::string_view text = "done", std::string_view name = "ls") {
  return fmt::format(
      R"({{"role":"toolResult","toolCallId":"{}","toolName":"{}","content":[{{"type":"text","text":{}}}]}})", id, name,
      json::quote(text));
}
// A result that stands for one that never came.
inline std::string made_result(std::string_view id) {
  return context::interrupted_result({.id = std::string(id), .name = "ls"});
}
inline std::string openai_call(std::string_view id, std::string_view name = "ls", std::string_view arguments = "{}") {
  return fmt::format(
      R"({{"role":"assistant","content":null,"tool_calls":[{{"id":"{}","type":"function","function":{{"name":"{}","arguments":{}}}}}]}})",
      id, name, json::quote(arguments));
}
inline std::string openai_result(std::string_view id, std::string_view text = "done") {
  return fmt::format(R"({{"role":"tool","tool_call_id":"{}","content":{}}})", id, json::quote(text));
}
inline std::string tool_use(std::string_view id, std::string_view name = "ls", std::string_view input = "{}") {
  return fmt::format(R"({{"type":"tool_use","id":"{}","name":"{}","input":{}}})", id, name, input);
}
inline std::string tool_result(std::string_view id, std::string_view text = "done") {
  return fmt::format(R"({{"type":"tool_result","tool_use_id":"{}","content":{}}})", id, json::quote(text));
}
inline std::string text_part(std::string_view text) {
  return fmt::format(R"({{"type":"text","text":{}}})", json::quote(text));
}
// An Anthropic message of a person: results, and maybe text.
inline std::string user_parts(std::string_view parts) {
  return fmt::format(R"({{"role":"user","content":[{}]}})", parts);
}

inline context::Line line_of(std::uint64_t seq, std::string body, std::string type = "message") {
  return {.seq = seq, .id = fmt::format("e{}", seq), .type = std::move(type), .body = std::move(body), .at = seq};
}
// The entries e<from>, e<from + 1>, …
inline std::vector<context::Line> lines_of(const std::vector<std::string>& messages, std::uint64_t from = 0) {
  std::vector<context::Line> lines;
  for (const std::string& message : messages) lines.push_back(line_of(from + lines.size(), message));
  return lines;
}
inline context::Line compaction_line(std::uint64_t seq, std::string_view summary, std::string_view first_kept = {}) {
  const std::string kept = first_kept.empty() ? "" : fmt::format(R"(,"firstKeptEntryId":"{}")", first_kept);
  return line_of(seq, fmt::format(R"({{"summary":{}{}}})", json::quote(summary), kept), "compaction");
}
// A conversation without a checkpoint, as it is read from a transcript.
inline context::Conversation talk(const std::vector<std::string>& messages) {
  context::Conversation conversation;
  for (context::Line& line : lines_of(messages)) {
    const bool system = json::string_at(line.body, "role") == "system";
    (system ? conversation.system : conversation.after).push_back(std::move(line));
  }
  return conversation;
}
inline context::Rows rows_of(const std::vector<context::Line>& lines) {
  context::Rows rows;
  std::vector<context::Repaired> ignored;
  context::add_rows(rows, lines, true, ignored);
  return rows;
}

inline std::vector<std::string> ids_of(const context::Rows& rows) {
  std::vector<std::string> ids;
  for (const context::Row& row : rows.all) ids.push_back(row.id.empty() ? "made" : row.id);
  return ids;
}
inline std::vector<std::string> whys(const std::vector<context::Repaired>& repaired) {
  std::vector<std::string> texts;
  for (const context::Repaired& one : repaired)
    texts.push_back(one.call_id + one.entry_id + " " + one.why + (one.shown_as.empty() ? "" : " " + one.shown_as));
  std::ranges::sort(texts);
  return texts;
}
// The text of a row's results, a newline between them.
inline std::string result_text(const context::Row& row) {
  std::string text;
  for (const context::ToolResult& one : row.entry.results) {
    if (!text.empty()) text += '\n';
    if (const auto whole = json::as_string(one.content)) text += *whole;
    for (const std::string_view part : json::elements(one.content)) text += json::string_at(part, "text").value_or("");
  }
  return text;
}

}  // namespace sessiond::testing
