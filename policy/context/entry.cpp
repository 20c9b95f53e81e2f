#include "policy/context/entry.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "store/json/raw_json.hpp"

namespace sessiond::context {
namespace {

bool is_string(std::string_view value) { return value.starts_with('"'); }
bool is_object(std::string_view value) { return value.starts_with('{'); }
bool is_array(std::string_view value) { return value.starts_with('['); }
std::string_view inner(std::string_view string) { return string.substr(1, string.size() - 2); }
std::string text(std::string_view value) { return json::as_string(value).value_or(""); }

// Sums up the size of a message.
struct Size {
  std::int64_t points = 0;
  std::int64_t images = 0;

  void add_string(std::string_view value) {
    if (is_string(value)) points += code_points(inner(value));
  }
  std::int64_t tokens() const { return tokens_of(points) + tokens_of_image * images; }
};

// Tells whether \uD800 to \uDFFF is written there; the digit behind the D says which half of a pair it is.
bool is_surrogate(std::string_view inner, std::size_t at, std::string_view digits) {
  if (at >= inner.size()) return false;
  const std::string_view unit = inner.substr(at, 4);
  return unit.size() == 4 && unit.starts_with("\\u") && (unit[2] == 'd' || unit[2] == 'D') && digits.contains(unit[3]);
}

// Counts the bytes that begin a character of UTF-8, eight at a time: those that are not 10xxxxxx.
std::int64_t utf8_points(std::string_view text) {
  constexpr std::uint64_t each = 0x0101010101010101;
  auto points = static_cast<std::int64_t>(text.size());
  std::size_t at = 0;
  for (; at + 8 <= text.size(); at += 8) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, text.data() + at, 8);
    points -= static_cast<std::int64_t>(((eight >> 7 & ~eight >> 6 & each) * each) >> 56);
  }
  for (; at < text.size(); ++at) points -= (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U;
  return points;
}

bool is_file(std::string_view type) {
  constexpr std::array<std::string_view, 6> kinds{"file", "input_file", "document", "audio", "video", "media"};
  return std::ranges::find(kinds, type) != kinds.end();
}

bool is_image(std::string_view type) { return type == "image" || type == "image_url" || type == "input_image"; }

// The members of a content part that the rules read, raw.
struct Part {
  std::string type{};
  std::string_view text{}, thinking{}, id{}, name{}, arguments{}, input{}, call{}, content{};
};

Part read_part(std::string_view object) {
  Part part;
  std::string held;
  for (const json::Member& member : json::members(object)) {
    const std::string_view name = name_of(member, held);
    if (name == "type") part.type = text(member.value);
    if (name == "text") part.text = member.value;
    if (name == "thinking") part.thinking = member.value;
    if (name == "id") part.id = member.value;
    if (name == "name" || name == "toolName") part.name = member.value;
    if (name == "arguments") part.arguments = member.value;
    if (name == "input") part.input = member.value;
    if (name == "tool_use_id" || name == "toolCallId") part.call = member.value;
    if (name == "content") part.content = member.value;
  }
  return part;
}

// Counts the code points of JSON: those of its strings, and a backslash more where one is needed.
std::int64_t json_points(std::string_view json) {
  std::int64_t points = code_points(json);
  for (std::size_t at = json.find('\\'); at != std::string_view::npos; at = json.find('\\', at + 2))
    points += json.substr(at).starts_with("\\u") ? 0 : 1;
  return points;
}

void count_arguments(Size& size, std::string_view arguments) {
  if (is_string(arguments))
    size.add_string(arguments);
  else if (!arguments.empty())
    size.points += json_points(json::compact(arguments));
}

void add_call(Entry& entry, Size& size, ToolCall call, std::string_view name) {
  size.add_string(name);
  count_arguments(size, call.arguments);
  call.name = text(name);
  entry.calls.push_back(std::move(call));
}

void count_content(Size& size, std::string_view content);

void read_one_part(Entry& entry, Size& size, std::string_view object) {
  const Part part = read_part(object);
  size.add_string(part.text);
  size.add_string(part.thinking);
  if (is_file(part.type)) ++entry.files;
  if (is_image(part.type)) {
    ++size.images;
    ++entry.files;
  } else if (part.type == "toolCall") {
    add_call(entry, size, {.id = text(part.id), .arguments = part.arguments}, part.name);
  } else if (part.type == "tool_use") {
    add_call(entry, size, {.id = text(part.id), .arguments = part.input, .spelling = Spelling::anthropic}, part.name);
  } else if (part.type == "tool_result" || part.type == "toolResult") {
    entry.results.push_back(
        {.call_id = text(part.call), .name = text(part.name), .content = part.content, .part = object});
    count_content(size, part.content);
  }
}

// Counts the content of a result within a message.
void count_content(Size& size, std::string_view content) {
  size.add_string(content);
  if (!is_array(content)) return;
  for (const std::string_view element : json::elements(content)) {
    if (!is_object(element)) continue;
    const Part part = read_part(element);
    size.add_string(part.text);
    if (is_image(part.type)) ++size.images;
  }
}

void read_tool_calls(Entry& entry, Size& size, std::string_view calls) {
  for (const std::string_view call : json::elements(calls)) {
    if (!is_object(call)) continue;
    const std::string_view function = json::find(call, "function").value_or(call);
    if (!is_object(function)) continue;
    add_call(entry, size,
             {.id = json::string_at(call, "id").value_or(""),
              .arguments = json::find(function, "arguments").value_or(""),
              .spelling = Spelling::openai},
             json::find(function, "name").value_or(""));
  }
}

// Tells a call that was denied or blocked from one that failed, by the text of its result.
std::string_view status_of_failure(std::string_view content) {
  std::string_view first = content;
  if (is_array(content))
    for (const std::string_view part : json::elements(content)) {
      first = is_object(part) ? json::find(part, "text").value_or("") : std::string_view();
      break;
    }
  const std::string said = text(first);
  if (said == "Permission denied") return "\"denied\"";
  return said.starts_with("Blocked by hook: ") ? "\"blocked\"" : "\"error\"";
}

Role role_of(std::string_view name) {
  if (name == "user") return Role::user;
  if (name == "assistant") return Role::assistant;
  if (name == "toolResult" || name == "tool") return Role::tool;
  if (name == "system" || name == "developer") return Role::system;
  return Role::none;
}

Entry read_message(std::string_view message) {
  Entry entry{.message = message};
  Size size;
  std::string_view said, call, tool, tool_calls, attachments, usage;
  bool failed = false;
  std::string held;
  for (const json::Member& member : json::members(message)) {
    const std::string_view name = name_of(member, held);
    if (name == "role") entry.role = role_of(text(member.value));
    if (name == "content") entry.content = member.value;
    if (name == "text") said = member.value;
    if (name == "toolCallId" || name == "tool_call_id") call = member.value;
    if (name == "toolName" || name == "name") tool = member.value;
    if (name == "tool_calls") tool_calls = member.value;
    if (name == "synthetic") entry.synthetic = member.value == "true";
    if (name == "summary") entry.summary = member.value == "true";
    if (name == "attachments") attachments = member.value;
    if (name == "status") entry.status = member.value;
    if (name == "status" || name == "entryIds") entry.marked = true;
    if (name == "isError" || name == "is_error") failed = member.value == "true";
    if (name == "usage") usage = member.value;
    if (name == "model") entry.model = member.value;
    if (name == "provider") entry.provider = member.value;
  }
  if (is_array(attachments)) entry.files += std::ranges::distance(json::elements(attachments));
  if (entry.role == Role::none) return entry;
  if (entry.content.empty()) size.add_string(said);
  size.add_string(entry.content);
  if (is_array(entry.content))
    for (const std::string_view part : json::elements(entry.content))
      if (is_object(part)) read_one_part(entry, size, part);
  if (entry.role == Role::assistant) {
    if (is_array(tool_calls)) read_tool_calls(entry, size, tool_calls);
    entry.usage = policy::read_usage(usage);
    entry.results.clear();
    entry.checkpoint = entry.summary;
  } else {
    entry.calls.clear();
  }
  if (entry.role == Role::tool) {
    entry.results = {{.call_id = text(call), .name = text(tool), .content = entry.content}};
    if (!is_string(entry.status)) entry.status = failed ? status_of_failure(entry.content) : "\"ok\"";
  } else {
    entry.status = {};
  }
  if (entry.role == Role::user && !entry.results.empty()) {
    const auto all = static_cast<std::size_t>(std::ranges::distance(json::elements(entry.content)));
    if (entry.results.size() == all) entry.role = Role::tool;
  }
  entry.person = entry.role == Role::user && !entry.synthetic && !entry.summary;
  entry.tokens = size.tokens();
  return entry;
}

// Reads an entry that is shown as a user's message that no person wrote.
Entry read_note(std::string_view body, std::string_view name) {
  Entry entry{.message = body, .content = json::find(body, name).value_or(""), .role = Role::user, .synthetic = true};
  Size size;
  count_content(size, entry.content);
  entry.tokens = size.tokens();
  return entry;
}

}  // namespace

std::int64_t code_points(std::string_view inner) {
  std::int64_t points = 0;
  std::size_t at = 0;
  while (at < inner.size()) {
    const std::size_t escape = std::min(inner.find('\\', at), inner.size());
    points += utf8_points(inner.substr(at, escape - at));
    if (escape == inner.size()) break;
    const bool hex = inner.substr(escape).starts_with("\\u");
    ++points;
    at = escape + (hex ? 6 : 2);
    if (is_surrogate(inner, escape, "89abAB") && is_surrogate(inner, at, "cdefCDEF")) at += 6;
  }
  return points;
}

std::int64_t files_in(std::string_view message) { return read_message(message).files; }

std::int64_t text_points(std::string_view content) {
  if (is_string(content)) return code_points(inner(content));
  std::int64_t points = 0;
  bool first = true;
  if (!is_array(content)) return points;
  for (const std::string_view part : json::elements(content)) {
    if (!is_object(part) || json::string_at(part, "type") != "text") continue;
    const std::string_view said = json::find(part, "text").value_or("");
    if (!is_string(said) || said.size() == 2) continue;
    points += code_points(inner(said)) + (first ? 0 : 1);
    first = false;
  }
  return points;
}

std::int64_t images_in(std::string_view content) {
  Size size;
  count_content(size, content);
  return size.images;
}

Entry read_entry(std::string_view type, std::string_view body) {
  if (type == "message") return read_message(body);
  if (type == "custom_message") return read_note(body, "content");
  if (type == "branch_summary") return read_note(body, "summary");
  if (type == "compaction") return {.message = body, .checkpoint = true};
  return {.message = body};
}

}  // namespace sessiond::context
