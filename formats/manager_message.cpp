#include <fmt/format.h>

#include "formats/manager.hpp"
#include "store/names.hpp"
#include "transcripts/entry.hpp"
#include "transcripts/members.hpp"

namespace sessiond::formats {
namespace {

using transcripts::is_array;
using transcripts::is_object;
using transcripts::is_string;

constexpr std::initializer_list<std::string_view> managed_members = {
    "role",     "text",  "content",   "files", "toolCalls", "tool_calls", "toolCallId",
    "toolName", "usage", "timestamp", "model", "synthetic", "attachments"};

void add_element(std::string& list, std::string_view element) {
  if (!list.empty()) list += ',';
  list += one_line(element);
}

// Renames members of an object; the others keep their names and all of them their places.
std::string renamed(std::string_view object,
                    std::initializer_list<std::pair<std::string_view, std::string_view>> names) {
  std::string out;
  for (const json::Member& member : json::members(object)) {
    std::string held;
    std::string_view name = name_of(member, held);
    const auto found = std::ranges::find(names, name, [](const auto& pair) { return pair.first; });
    out += fmt::format("{}\"{}\":{}", out.empty() ? "" : ",", found != names.end() ? found->second : member.name,
                       one_line(member.value));
  }
  return "{" + out + "}";
}

// The usage of a message with the names of this format; with its numbers before it if no name is known.
std::string managed_usage(std::string_view usage) {
  std::string out = renamed(usage, {{"input", "inputTokens"}, {"output", "outputTokens"}});
  if (json::find(out, "inputTokens") || json::find(out, "outputTokens")) return out;
  const auto read = policy::read_usage(usage);
  if (!read || read->total == 0) return out;
  return fmt::format(R"({{"inputTokens":{},"outputTokens":{}{}{})", read->input, read->output, out == "{}" ? "" : ",",
                     out.substr(1));
}

// Reads `result` of a call from a result. Members that only name the call are left out.
std::string result_of(std::string_view result) {
  return stored_message(json::apply(result, {.unset = {"role", "toolCallId", "tool_call_id"}}), {})
      .replace(1, std::string_view(R"("role":"",)").size(), "");
}

std::string calls_of(const context::Entry& spoken, const std::vector<std::string>& results) {
  std::string calls;
  for (const context::ToolCall& call : spoken.calls) {
    json::ObjectWriter one;
    one.string("id", call.id);
    one.string("name", call.name);
    one.raw("arguments", arguments_of(call.arguments));
    for (const std::string& result : results)
      if (const auto read = context::read_entry("message", result); read.results.front().call_id == call.id)
        one.raw("result", result_of(result));
    add_element(calls, one.text());
  }
  return calls;
}

bool is_file(std::string_view part) {
  return is_object(part) && context::files_in(fmt::format(R"({{"role":"user","content":[{}]}})", part)) > 0;
}

bool calls_tools(std::string_view parts) {
  return !context::read_entry("message", fmt::format(R"({{"role":"assistant","content":[{}]}})", parts)).calls.empty();
}

std::string part_of_call(std::string_view call) {
  json::ObjectWriter part;
  part.string("type", "toolCall");
  part.string("id", json::string_at(call, "id").value_or(""));
  part.string("name", json::string_at(call, "name").value_or(""));
  part.raw("arguments", arguments_of(json::find(call, "arguments").value_or("{}")));
  return part.text();
}

std::string result_message(std::string_view call, std::string_view result) {
  json::ObjectWriter out;
  out.string("role", "toolResult");
  out.string("toolCallId", json::string_at(call, "id").value_or(""));
  if (!is_object(result)) {
    out.string("toolName", json::string_at(call, "name").value_or(""));
    const std::string text = is_string(result) ? std::string(result) : json::quote(json::compact(result));
    out.raw("content", is_array(result) ? one_line(result) : fmt::format(R"([{{"type":"text","text":{}}}])", text));
    return out.text();
  }
  std::string text = out.text();
  text.pop_back();
  if (!json::find(result, "toolName") && !json::find(result, "name"))
    text += ",\"toolName\":" + json::quote(json::string_at(call, "name").value_or(""));
  if (const std::string others = other_members(result, {"role", "toolCallId", "timestamp"}); !others.empty())
    text.append(",").append(others);
  const auto time = json::string_at(result, "timestamp");
  if (const auto ms = time ? transcripts::parse_iso_time(*time) : std::nullopt)
    text += fmt::format(R"(,"timestamp":{})", *ms);
  return text + "}";
}

}  // namespace

std::string managed_message(std::string_view message, const std::vector<std::string>& results) {
  const context::Entry spoken = context::read_entry("message", message);
  const json::Index members(message);
  const std::string role = members.string_at("role").value_or("");
  const std::string_view content = members.find("content").value_or("\"\"");
  std::string files;
  for (const std::string_view part : json::elements(content))
    if (is_file(part)) add_element(files, part);
  for (const std::string_view part : json::elements(members.find("attachments").value_or("[]")))
    add_element(files, part);
  json::ObjectWriter out;
  out.string("role", role == "toolResult" ? "tool" : role);
  out.string("text", members.find("content") ? transcripts::text_of(content) : members.string_at("text").value_or(""));
  if (!files.empty()) out.raw("files", "[" + files + "]");
  if (!spoken.calls.empty()) out.raw("toolCalls", "[" + calls_of(spoken, results) + "]");
  for (const char* name : {"toolCallId", "toolName"})
    if (const auto value = members.find(name)) out.raw(name, one_line(*value));
  if (const auto usage = members.find("usage"))
    out.raw("usage", is_object(*usage) ? managed_usage(*usage) : one_line(*usage));
  for (const char* name : {"model", "synthetic"})
    if (const auto value = members.find(name)) out.raw(name, one_line(*value));
  if (const auto time = json::string_at(stored_message(message, {}), "timestamp")) out.string("timestamp", *time);
  std::string text = out.text();
  text.pop_back();
  if (const std::string others = other_members(message, managed_members); !others.empty())
    text.append(",").append(others);
  text += "}";
  // A content that text, files and calls do not tell whole stands beside them.
  const std::vector<std::string> made = unmanaged_messages(text);
  const auto back = json::find(made.front(), "content");
  if (members.find("content") && is_array(content) && (!back || !json::same(*back, content))) {
    text.pop_back();
    text.append(",\"content\":").append(one_line(content)).append("}");
  }
  return text;
}

std::vector<std::string> unmanaged_messages(std::string_view managed) {
  const json::Index members(managed);
  const std::string role = members.string_at("role").value_or("");
  const std::string_view calls = members.find("toolCalls").value_or("[]");
  const std::string_view said = members.find("text").value_or("\"\"");
  const auto content = members.find("content");
  std::string parts, attachments;
  if (is_string(said) && said.size() > 2) parts = fmt::format(R"({{"type":"text","text":{}}})", said);
  auto in_content = content ? std::ranges::count_if(json::elements(*content), is_file) : 0;  // the first of `files`
  for (const std::string_view file : json::elements(members.find("files").value_or("[]")))
    if (in_content-- <= 0) add_element(!content && is_file(file) ? parts : attachments, file);
  std::vector<std::string> results;
  std::string own_calls;
  for (const std::string_view call : json::elements(calls)) {
    if (!is_object(call)) continue;
    add_element(own_calls, part_of_call(call));
    if (const auto result = json::find(call, "result")) results.push_back(result_message(call, *result));
  }
  std::string text = fmt::format(R"({{"role":{})", json::quote(role == "tool" ? "toolResult" : role));
  for (const char* name : {"toolCallId", "toolName"})
    if (const auto value = members.find(name)) text += fmt::format(",\"{}\":{}", name, one_line(*value));
  if (content && is_array(*content)) parts = one_line(content->substr(1, content->size() - 2));
  if (!own_calls.empty() && !calls_tools(parts)) parts += (store::trim(parts).empty() ? "" : ",") + own_calls;
  text.append(",\"content\":[").append(parts).append("]");
  if (!attachments.empty()) text += fmt::format(R"(,"attachments":[{}])", attachments);
  if (const auto usage = members.find("usage"))
    text += ",\"usage\":" + (is_object(*usage) ? renamed(*usage, {{"inputTokens", "input"}, {"outputTokens", "output"}})
                                               : one_line(*usage));
  for (const char* name : {"model", "synthetic"})
    if (const auto value = members.find(name)) text += fmt::format(",\"{}\":{}", name, one_line(*value));
  if (const std::string others = other_members(managed, managed_members); !others.empty())
    text.append(",").append(others);
  const auto time = members.string_at("timestamp");
  if (const auto ms = time ? transcripts::parse_iso_time(*time) : std::nullopt)
    text += fmt::format(R"(,"timestamp":{})", *ms);
  std::vector<std::string> all{text + "}"};
  std::ranges::move(results, std::back_inserter(all));
  return all;
}

}  // namespace sessiond::formats
