#include "formats/document.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "formats/json_lines.hpp"
#include "policy/pointer.hpp"
#include "store/names.hpp"
#include "store/time_range.hpp"
#include "store/try.hpp"
#include "transcripts/entry.hpp"
#include "transcripts/members.hpp"

namespace sessiond::formats {
namespace {

using transcripts::is_array;
using transcripts::is_object;
using transcripts::is_string;
using transcripts::text_at;

std::optional<std::int64_t> time_in(std::string_view value) {
  const auto text = json::as_string(value);
  const auto ms = text ? transcripts::parse_iso_time(*text) : json::as_int(value);
  return ms && *ms >= 0 && *ms <= store::last_time_ms ? ms : std::nullopt;
}

bool is_among(std::string_view name, const std::vector<std::string_view>& names) {
  return std::ranges::find(names, name) != names.end();
}

// Makes parts of a content of the calls that an OpenAI-like message lists: {"id","function":{"name","arguments"}}.
std::string call_parts(std::string_view calls) {
  std::string parts;
  for (const std::string_view call : json::elements(calls)) {
    const std::string_view function = is_object(call) ? json::find(call, "function").value_or(call) : "{}";
    const auto arguments = is_object(function) ? json::find(function, "arguments") : std::nullopt;
    json::ObjectWriter part;
    part.string("type", "toolCall");
    part.string("id", is_object(call) ? text_at(call, "id") : "");
    part.string("name", is_object(function) ? text_at(function, "name") : "");
    part.raw("arguments", arguments_of(arguments.value_or("{}")));
    if (!parts.empty()) parts += ',';
    parts += part.text();
  }
  return parts;
}

Result<void> check_content(std::string_view message, std::string_view content, const std::string& pointer) {
  if (content.empty() || is_string(content)) return {};
  const bool calls = json::find(message, "tool_calls") || json::find(message, "toolCalls");
  if (calls && content == "null") return {};
  if (!is_array(content)) return fail_at(pointer + "/content", "must be a string or an array of objects");
  std::size_t index = 0;
  for (const std::string_view part : json::elements(content)) {
    if (!is_object(part)) return fail_at(fmt::format("{}/content/{}", pointer, index), "must be an object");
    ++index;
  }
  return {};
}

bool is_one_value(std::string_view text) { return json::check(text, {.max_depth = json::foreign_depth}).has_value(); }

}  // namespace

std::vector<Document> documents_in(std::string_view body) {
  body = without_byte_order_mark(body);
  std::vector<Document> lines;
  bool whole = false;  // a line looks like a document of its own
  std::size_t number = 0;
  for (std::string_view rest = body; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = store::trim(rest.substr(0, end));
    ++number;
    if (!line.empty()) lines.push_back({.text = line, .line = number});
    whole = whole || (rest.starts_with('{') && line.ends_with('}'));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (lines.size() <= 1 || !whole || is_one_value(body)) return {{.text = body, .line = 1}};
  return lines;
}

Result<void> check_document(std::string_view document) {
  if (is_utf16(document)) return fail_at("", std::string(utf16_why));
  if (const auto checked = json::check(document, {.max_depth = json::foreign_depth, .utf8 = true}); !checked)
    return fail_at("", fmt::format("is not JSON at byte {}: {}", checked.error().offset, checked.error().detail));
  if (json::kind(store::trim(document)) != json::Kind::object) return fail_at("", "must be an object");
  return {};
}

Result<std::optional<std::string>> text_member(std::string_view object, std::string_view parent,
                                               std::string_view name) {
  const auto value = json::find(object, name);
  if (!value || *value == "null") return std::nullopt;
  auto text = json::as_string(*value);
  if (!text) return fail_at(policy::pointer_to(parent, name), "must be a string");
  return text;
}

Result<std::optional<std::int64_t>> time_member(std::string_view object, std::string_view parent,
                                                std::string_view name) {
  const auto value = json::find(object, name);
  if (!value || *value == "null") return std::nullopt;
  const auto ms = time_in(*value);
  if (!ms) return fail_at(policy::pointer_to(parent, name), "must be an ISO 8601 time, up to the year 9999");
  return ms;
}

std::string pointer_to_message(std::size_t index) { return fmt::format("/messages/{}", index); }

Result<std::vector<std::string_view>> messages_of(std::string_view document) {
  const auto list = json::find(document, "messages");
  if (!list) return fail_at("/messages", "is missing");
  if (!is_array(*list)) return fail_at("/messages", "must be an array");
  std::vector<std::string_view> messages;
  for (const std::string_view message : json::elements(*list)) {
    const std::string pointer = pointer_to_message(messages.size());
    if (!is_object(message)) return fail_at(pointer, "must be an object");
    const auto role = json::find(message, "role");
    if (!role) return fail_at(pointer + "/role", "is missing");
    const std::string name = json::as_string(*role).value_or("");
    if (!is_among(name, {"user", "assistant", "system", "developer", "tool", "toolResult"}))
      return fail_at(pointer + "/role",
                     fmt::format("is {}, which is none of user, assistant, system, developer, tool and toolResult",
                                 role->substr(0, 100)));
    messages.push_back(message);
  }
  return messages;
}

Result<std::string> id_member(std::string_view object, std::string_view parent) {
  TRY(const auto id, text_member(object, parent, "id"));
  const std::string pointer = policy::pointer_to(parent, "id");
  if (!id) return fail_at(pointer, "is missing");
  if (const auto valid = store::check_new_session_id(*id); !valid) return fail_at(pointer, valid.error().detail);
  return *id;
}

std::string one_line(std::string_view value) {
  return value.find_first_of("\r\n") == std::string_view::npos ? std::string(value) : json::compact(value);
}

std::string other_members(std::string_view object, const std::vector<std::string_view>& known) {
  std::string out;
  for (const json::Member& member : json::members(object)) {
    std::string held;
    if (is_among(name_of(member, held), known)) continue;
    out += fmt::format("{}\"{}\":{}", out.empty() ? "" : ",", member.name, one_line(member.value));
  }
  return out;
}

std::string arguments_of(std::string_view raw) {
  if (raw.empty()) return "{}";
  if (is_object(raw)) return one_line(raw);
  const auto text = json::as_string(raw);
  const std::string_view held = text ? store::trim(*text) : std::string_view();
  if (is_object(held) && json::check(held, {.utf8 = true})) return json::compact(held);
  return fmt::format(R"({{"text":{}}})", text ? json::quote(*text) : json::quote(json::compact(raw)));
}

std::string header_of(std::string_view session_id, std::int64_t created, std::string_view cwd) {
  std::string line = transcripts::header_line(session_id, created, cwd, "");
  line.pop_back();
  return line;
}

std::string EntryMaker::id_of(std::uint64_t number) { return fmt::format("{:08x}", number); }

std::string EntryMaker::head(std::string_view type) {
  const std::uint64_t number = count_++;
  return fmt::format(R"({{"type":"{}","id":"{}","parentId":{},"timestamp":"{}")", type, id_of(number),
                     number == 0 ? "null" : "\"" + id_of(number - 1) + "\"", transcripts::iso_time(time_));
}

std::string EntryMaker::message(std::string_view message, std::optional<std::int64_t> time, std::string_view format,
                                std::string_view kept) {
  time_ = time.value_or(time_);
  std::string line = head("message");
  line.append(",\"message\":").append(message);
  if (!kept.empty()) line += fmt::format(R"(,"sessiond":{{"{}":{}}})", format, kept);
  return line + '}';
}

std::string EntryMaker::other(std::string_view type, std::string_view members) {
  std::string line = head(type);
  if (!members.empty()) line.append(",").append(members);
  return line + '}';
}

std::string EntryMaker::history(std::string_view format, std::string_view data) {
  return other("custom", fmt::format(R"("customType":"sessiond.history","data":{{"format":"{}",{}}})", format, data));
}

Result<ReadMessage> read_stored_message(std::string_view value, const std::string& pointer) {
  const json::Index members(value);
  const std::string_view content = members.find("content").value_or("");
  TRY(check_content(value, content, pointer));
  TRY(const auto time, time_member(value, pointer, "timestamp"));
  const std::string_view calls = members.find("toolCalls").value_or("");
  const bool parts = is_array(calls) && calls != "[]";
  ReadMessage read{.time = time};
  read.message = fmt::format(R"({{"role":{})", *members.find("role"));
  if (parts) {
    std::string all;
    if (is_array(content)) all = one_line(content.substr(1, content.size() - 2));
    if (is_string(content) && content.size() > 2) all = fmt::format(R"({{"type":"text","text":{}}})", content);
    if (!store::trim(all).empty()) all += ',';
    read.message += fmt::format(R"(,"content":[{}{}])", all, call_parts(calls));
  } else if (!content.empty()) {
    read.message.append(",\"content\":").append(one_line(content));
  }
  const std::string others = parts ? other_members(value, {"role", "content", "timestamp", "toolCalls"})
                                   : other_members(value, {"role", "content", "timestamp"});
  if (!others.empty()) read.message.append(",").append(others);
  if (time) read.message += fmt::format(R"(,"timestamp":{})", *time);
  read.message += '}';
  return read;
}

std::string stored_message(std::string_view message, std::optional<std::int64_t> time) {
  const json::Index members(message);
  std::string out = fmt::format(R"({{"role":{})", members.find("role").value_or("\"\""));
  if (const auto content = members.find("content")) out.append(",\"content\":").append(one_line(*content));
  if (const auto own = members.find("timestamp"))
    if (const auto ms = time_in(*own)) time = ms;
  if (time) out += fmt::format(R"(,"timestamp":"{}")", transcripts::iso_time(*time));
  const std::string others = other_members(message, {"role", "content", "timestamp"});
  if (!others.empty()) out.append(",").append(others);
  return out + '}';
}

}  // namespace sessiond::formats
