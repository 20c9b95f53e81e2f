#include "policy/context/entry.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>

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
  void add(const Size& other) {
    points += other.points;
    images += other.images;
  }
  std::int64_t tokens() const { return tokens_of(points) + tokens_of_image * images; }
};

// Tells whether \uD800 to \uDFFF is written there; the digit behind the D says which half of a pair it is.
bool is_surrogate(std::string_view inner, std::size_t at, std::string_view digits) {
  if (at >= inner.size()) return false;
  const std::string_view unit = inner.substr(at, 4);
  return unit.size() == 4 && unit.starts_with("\\u") && (unit[2] == 'd' || unit[2] == 'D') && digits.contains(unit[3]);
}

// Counts the bytes that begin a character of UTF-8, many at a time: those that are not 10xxxxxx.
std::int64_t utf8_points(std::string_view text) {
  constexpr std::uint64_t each = 0x0101010101010101;
  auto points = static_cast<std::int64_t>(text.size());
  std::size_t at = 0;
  for (; at + 64 <= text.size(); at += 64) {  // compilers make vectors of it
    std::uint8_t tails = 0;
    for (std::size_t byte = 0; byte < 64; ++byte)
      tails = static_cast<std::uint8_t>(tails + ((static_cast<unsigned char>(text[at + byte]) & 0xC0U) == 0x80U));
    points -= tails;
  }
  for (; at + 8 <= text.size(); at += 8) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, text.data() + at, 8);
    points -= static_cast<std::int64_t>(((eight >> 7 & ~eight >> 6 & each) * each) >> 56);
  }
  for (; at < text.size(); ++at) points -= (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U;
  return points;
}

bool is_file(std::string_view type) {
  constexpr std::array<std::string_view, 8> kinds{"file",  "input_file",  "document", "audio",
                                                  "video", "input_audio", "media",    "resource"};
  return std::ranges::find(kinds, type) != kinds.end();
}

bool is_image(std::string_view type) { return type == "image" || type == "image_url" || type == "input_image"; }

// Returns whether a character is white space in Unicode. Providers trim it before they look for a text.
bool is_white(char32_t c) {
  return (c >= 0x09 && c <= 0x0d) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

// Returns the first character of a JSON string as it is written, and how many bytes it has there. 0 bytes: a character
// that is not white space.
std::pair<char32_t, std::size_t> first_character(std::string_view inner) {
  const auto byte = [inner](std::size_t at) { return at < inner.size() ? static_cast<unsigned char>(inner[at]) : 0U; };
  if (inner[0] != '\\') {
    if (byte(0) < 0x80) return {byte(0), 1};
    if (byte(0) < 0xe0) return {(byte(0) & 0x1fU) << 6U | (byte(1) & 0x3fU), 2};
    return {(byte(0) & 0x0fU) << 12U | (byte(1) & 0x3fU) << 6U | (byte(2) & 0x3fU), byte(0) < 0xf0 ? 3 : 0};
  }
  if (inner.starts_with("\\u") && inner.size() >= 6) {
    unsigned code = 0;
    std::from_chars(inner.data() + 2, inner.data() + 6, code, 16);
    return {code, 6};
  }
  return {byte(1) == 'n' || byte(1) == 't' || byte(1) == 'r' || byte(1) == 'f' ? ' ' : 0, 2};
}

// Returns whether a JSON string has only white space. Stops at the first other character.
bool is_white(std::string_view string) {
  std::string_view rest = inner(string);
  while (!rest.empty()) {
    const auto [character, size] = first_character(rest);
    if (size == 0 || size > rest.size() || !is_white(character)) return false;
    rest.remove_prefix(size);
  }
  return true;
}

// The members of a content part that the rules read, raw.
struct Part {
  std::string type{};  // Google's inlineData has none: "image" or "file"
  std::string_view text{}, thinking{}, id{}, name{}, arguments{}, input{}, call{}, content{};
};

std::string_view type_of_inline_data(std::string_view data) {
  for (const std::string_view name : {"mimeType", "mime_type"})
    if (json::string_at(data, name).value_or("").starts_with("image/")) return "image";
  return "file";
}

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
    if ((name == "inlineData" || name == "inline_data") && part.type.empty() && is_object(member.value))
      part.type = type_of_inline_data(member.value);
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

// The size of a message's content, and what decides whether it can be sent.
struct Content {
  Size words{}, results{};
  std::size_t parts = 0;       // without blank text
  bool has_substance = false;  // more than thinking and blank text
  bool has_blank = false;      // a part that is blank
};

// Returns whether the content of a result has a blank text, which cannot be sent.
bool has_blank(std::string_view content) {
  return is_blank(content) || (is_array(content) && std::ranges::any_of(json::elements(content), is_blank_text));
}

// Counts a result's content.
void count_result(Size& size, std::string_view content) {
  if (is_blank(content))
    size.points += static_cast<std::int64_t>(no_output.size());
  else
    count_content(size, content);
}

void read_one_part(Entry& entry, Content& content, std::string_view object) {
  const Part part = read_part(object);
  const bool is_result = part.type == "tool_result" || part.type == "toolResult";
  const bool is_blank = is_text(part.type) && (!is_string(part.text) || is_white(part.text));
  content.has_blank = content.has_blank || is_blank || (is_result && has_blank(part.content));
  content.has_substance = content.has_substance || !(is_blank || is_thinking(part.type));
  if (!is_blank) ++content.parts;
  Size one;
  Size& size = is_result ? one : content.words;
  if (!is_blank) size.add_string(part.text);
  size.add_string(part.thinking);
  if (is_file(part.type)) ++entry.files;
  if (is_image(part.type)) {
    ++size.images;
    ++entry.files;
  } else if (part.type == "toolCall") {
    add_call(entry, size, {.id = text(part.id), .arguments = part.arguments, .part = object}, part.name);
  } else if (part.type == "tool_use") {
    add_call(entry, size,
             {.id = text(part.id), .arguments = part.input, .part = object, .spelling = Spelling::anthropic},
             part.name);
  } else if (is_result) {
    count_result(one, part.content);
    content.results.add(one);
    entry.results.push_back({.call_id = text(part.call),
                             .name = text(part.name),
                             .content = part.content,
                             .part = object,
                             .tokens = one.tokens()});
  }
}

// Counts the content of a result within a message.
void count_content(Size& size, std::string_view content) {
  size.add_string(content);
  if (!is_array(content)) return;
  for (const std::string_view element : json::elements(content)) {
    if (!is_object(element)) continue;
    const Part part = read_part(element);
    if (!is_text(part.type) || !is_string(part.text) || !is_white(part.text)) size.add_string(part.text);
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
              .part = call,
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
      if (!is_blank_text(part)) break;
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

void read_parts(Entry& entry, Content& content) {
  if (!is_array(entry.content)) return;
  for (const std::string_view part : json::elements(entry.content)) {
    if (is_object(part)) {
      read_one_part(entry, content, part);
    } else {
      content.has_substance = true;
      ++content.parts;
    }
  }
}

// Sets how a tool's message can be sent, and its tokens then.
void fit_result(Entry& entry, const Content& content, std::string_view said) {
  Size size;
  if (entry.content.empty() && is_string(said) && !is_white(said))
    size.add_string(said);
  else if (is_array(entry.content) && !is_blank(entry.content))
    size = content.words;
  else
    count_result(size, entry.content);
  entry.tokens = entry.results.front().tokens = size.tokens();
  if (has_blank(entry.content)) entry.fit = Fit::mended;
}

// Sets how any other message can be sent, and its tokens then. `said`: the member `text`, which counts without content.
void fit_words(Entry& entry, Content& content, std::string_view said, std::string_view attachments) {
  Size& size = content.words;
  const bool has_calls = !entry.calls.empty();
  if (is_array(entry.content)) {
    if (content.has_blank) entry.fit = Fit::mended;
    if (!content.has_substance && !has_calls) entry.fit = Fit::left_out;
  } else if (is_blank(entry.content)) {
    const bool has_text = entry.content.empty() && is_string(said) && !is_white(said);
    if (has_text) size.add_string(said);
    entry.fit = has_text                   ? Fit::mended
                : !has_calls               ? Fit::left_out
                : is_string(entry.content) ? Fit::mended
                                           : entry.fit;
  } else {
    size.add_string(entry.content);
  }
  if (entry.fit == Fit::left_out && entry.role == Role::user && is_array(attachments) && attachments != "[]") {
    size.add_string(json::quote(names_of_attachments(attachments)));
    entry.fit = Fit::mended;
  }
  size.points += static_cast<std::int64_t>(mark_of(entry).size());
  entry.word_tokens = size.tokens();
  size.add(content.results);
  entry.tokens = size.tokens();
}

bool is_image_item(std::string_view item) {
  return is_object(item) && is_image(json::string_at(item, "type").value_or(""));
}
// Returns whether the content is the error that its program reports, and nothing that a model said.
bool is_report_of(std::string_view error, std::string_view content) {
  if (!is_string(error) || is_white(error)) return false;
  const std::string reported = text(error);
  if (is_string(content)) return text(content) == reported;
  if (!is_array(content)) return false;
  bool is_report = false;
  for (const std::string_view part : json::elements(content)) {
    if (is_report || !is_object(part)) return false;
    const Part read = read_part(part);
    is_report = is_text(read.type) && text(read.text) == reported;
    if (!is_report) return false;
  }
  return is_report;
}

Entry read_message(std::string_view message) {
  Entry entry{.message = message};
  Content content;
  std::string_view said, call, tool, tool_calls, attachments, usage, state, error, dropped, author;
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
    if (name == "fromMe") entry.from_owner = member.value == "true";
    if (name == "attachments") attachments = member.value;
    if (name == "status") entry.status = member.value;
    if (name == "status" || name == "entryIds") entry.marked = true;
    if (name == "isError" || name == "is_error") failed = member.value == "true";
    if (name == "usage") usage = member.value;
    if (name == "state") state = member.value;
    if (name == "errorMessage") error = member.value;
    if (name == "model") entry.model = member.value;
    if (name == "provider") entry.provider = member.value;
    if (name == "dropped") dropped = member.value;
    if (name == "author") author = member.value;
  }
  if (is_array(attachments)) entry.files += std::ranges::distance(json::elements(attachments));
  if (entry.role == Role::none) return entry;
  if (entry.role == Role::assistant && is_object(author)) {
    entry.author = json::string_at(author, "name").value_or("");
    if (!entry.author.empty()) entry.role = Role::user;
    if (!entry.author.empty()) entry.model = entry.provider = {};
  }
  read_parts(entry, content);
  if (entry.role == Role::assistant) {
    if (is_array(tool_calls)) read_tool_calls(entry, content.words, tool_calls);
    entry.usage = policy::read_usage(usage);
    entry.results.clear();
    entry.checkpoint = entry.summary;
    entry.interrupted = state == R"("interrupted")" && entry.calls.empty() && !entry.usage;
    if (state == R"("superseded")" && entry.calls.empty())  // nobody was told it
      return {.message = message, .usage = entry.usage};
  } else {
    entry.calls.clear();
  }
  if (entry.role == Role::tool) {
    entry.results = {{.call_id = text(call), .name = text(tool), .content = entry.content}};
    if (!is_string(entry.status)) entry.status = failed ? status_of_failure(entry.content) : "\"ok\"";
    fit_result(entry, content, said);
    return entry;
  }
  entry.status = {};
  if (entry.role == Role::user && !entry.results.empty() && entry.results.size() == content.parts)
    entry.role = Role::tool;
  entry.person = entry.role == Role::user && !entry.synthetic && !entry.summary;
  entry.from_owner = entry.from_owner && entry.person;
  if (entry.role == Role::user && entry.synthetic && is_array(dropped))
    for (const std::string_view id : json::elements(dropped)) entry.dropped.push_back(text(id));
  fit_words(entry, content, said, attachments);
  if (entry.role == Role::assistant && entry.calls.empty() && is_report_of(error, entry.content)) {
    entry.fit = Fit::left_out;
    entry.tokens = entry.word_tokens = 0;
  }
  return entry;
}

// Reads an entry that is shown as a user's message that no person wrote, as that message would be read.
Entry read_note(std::string_view body, std::string_view name) {
  Entry entry{.message = body, .content = json::find(body, name).value_or(""), .role = Role::user, .synthetic = true};
  Content content;
  read_parts(entry, content);
  entry.calls.clear();
  if (!entry.results.empty() && entry.results.size() == content.parts) entry.role = Role::tool;
  fit_words(entry, content, {}, {});
  return entry;
}

// Reads what an entry tells of a run. Null: nothing.
std::shared_ptr<const RunNote> note_of(std::string_view body) {
  const json::Index members(body);
  const std::string type = members.string_at("customType").value_or("");
  const std::string_view data = members.find("data").value_or("");
  if (!is_run_note(type) || !is_object(data)) return {};
  const bool is_input = type == "sessiond.input";
  const json::Index told(data);
  auto note = std::make_shared<RunNote>(RunNote{.what = is_input ? RunNote::What::input : RunNote::What::record,
                                                .run_id = told.string_at("runId").value_or(""),
                                                .retry_of = told.string_at("retryOf").value_or(""),
                                                .beside_others = told.find("besideOthers") == "true",
                                                .retried = told.find("retried") == "true"});
  const std::string_view words = told.find(is_input ? "entries" : "input").value_or("");
  if (is_array(words))
    for (const std::string_view id : json::elements(words)) note->words.push_back(text(id));
  if (const auto error = told.find("error"); error && is_object(*error))
    note->blocked = json::string_at(*error, "code") == "hook_blocked";
  return note;
}

}  // namespace

std::string mark_of(const Entry& entry) {
  if (entry.from_owner) return std::string(owner_mark);
  return entry.author.empty() ? "" : "[sent by " + entry.author + ", of the team] ";
}

bool is_run_note(std::string_view custom_type) {
  return custom_type == "sessiond.input" || custom_type == "sessiond.run";
}

bool is_text(std::string_view type) { return type == "text" || type == "input_text" || type == "output_text"; }
bool is_thinking(std::string_view type) {
  return type == "thinking" || type == "redacted_thinking" || type == "reasoning";
}

bool is_blank_text(std::string_view part) {
  if (!is_object(part)) return false;
  const Part read = read_part(part);
  return is_text(read.type) && (!is_string(read.text) || is_white(read.text));
}

bool is_blank(std::string_view content) {
  if (is_string(content)) return is_white(content);
  if (is_array(content)) return std::ranges::all_of(json::elements(content), is_blank_text);
  return content.empty() || content == "null";
}

std::string name_of_media(std::string_view item) {
  if (!is_object(item)) return {};
  for (const std::string_view member : {"name", "fileName", "filename"})
    if (auto name = json::string_at(item, member); name && !name->empty()) return *name;
  const auto file = json::find(item, "file");  // OpenAI's
  return file && is_object(*file) ? json::string_at(*file, "filename").value_or("") : "";
}

std::string_view media_kind(std::string_view item) {
  const std::string type = is_object(item) ? read_part(item).type : "";
  return is_image(type) ? "image" : is_file(type) ? "file" : "";
}

std::string attachments_in(std::string_view message) {
  std::string out;
  const auto add = [&out](std::string_view item) {
    json::ObjectWriter one;
    one.string("type", is_image_item(item) ? "image" : "file");
    if (const std::string name = name_of_media(item); !name.empty()) one.string("name", name);
    out.append(out.empty() ? "[" : ",").append(one.text());
  };
  const auto content = json::find(message, "content").value_or("");
  if (is_array(content))
    for (const std::string_view part : json::elements(content)) {
      if (!media_kind(part).empty()) add(part);
    }
  const auto attachments = json::find(message, "attachments").value_or("");
  if (is_array(attachments))
    for (const std::string_view attachment : json::elements(attachments)) add(attachment);
  return out.empty() ? out : out + "]";
}

std::string names_of_attachments(std::string_view attachments) {
  std::string names;
  for (const std::string_view attachment : json::elements(attachments)) {
    if (!names.empty()) names += '\n';
    const std::string name = name_of_media(attachment);
    names += is_image_item(attachment) ? "[image]" : name.empty() ? "[file]" : "[file: " + name + "]";
  }
  return names;
}

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
  if (type == "custom") return {.message = body, .note = note_of(body)};
  return {.message = body};
}

}  // namespace sessiond::context
