#include "formats/codex_lines.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "store/try.hpp"

namespace sessiond::formats {
namespace {

using json::Kind;

constexpr std::string_view codex_program = "codex";

Tokens codex_tokens(std::string_view usage) {
  const auto count = [&usage](std::string_view name) {
    return std::max<std::int64_t>(0, json::int_at(usage, name).value_or(0));
  };
  const std::int64_t cached = count("cached_input_tokens");
  return {.input = std::max<std::int64_t>(0, count("input_tokens") - cached),
          .output = count("output_tokens"),
          .cache_read = cached,
          .cache_write = count("cache_write_input_tokens"),
          .known = true};
}

// The tokens of one reply, as an event or a record of its own tells them.
Tokens told_tokens(const CodexLine& line) {
  if (line.type == "token_usage_record") {
    const auto usage = member(line.payload, "usage", Kind::object);
    return usage ? codex_tokens(*usage) : Tokens{};
  }
  if (line.type != "event_msg" || line.kind != "token_count") return {};
  const auto info = member(line.payload, "info", Kind::object);
  const auto usage = info ? member(*info, "last_token_usage", Kind::object) : std::nullopt;
  return usage ? codex_tokens(*usage) : Tokens{};
}

// Whether Codex itself wrote a user's message, to tell the model about the surroundings.
bool is_of_codex(std::string_view text) {
  constexpr std::array<std::string_view, 8> openings = {
      "<environment_context>",    "<user_instructions>",    "<permissions instructions>",
      "# AGENTS.md instructions", "<turn_aborted>",         "<skill>",
      "<user_shell_command>",     "<subagent_notification>"};
  return std::ranges::any_of(openings, [text](std::string_view opening) { return text.starts_with(opening); });
}

}  // namespace

CodexLine::CodexLine(std::string_view line, std::uint64_t at) : text(line), number(at) {
  const json::Index members(line);
  type = members.string_at("type").value_or("");
  const auto stamp = members.find("timestamp");
  if (stamp) time = time_of(*stamp);
  bad_time = stamp && !time;
  if (const auto inner = member(members, "payload", Kind::object)) {
    payload = *inner;
    pointer = "/payload";
    kind = json::string_at(payload, "type").value_or("");
    return;
  }
  if (members.find("payload")) {
    type.clear();
    return;
  }
  payload = line;
  kind = std::exchange(type, "");
  if (!kind.empty()) type = "response_item";
  if (kind.empty() && members.find("record_type")) type = "state";
  if (kind.empty() && type.empty() && members.find("id") && stamp) type = "session_meta";
}

bool is_of_reply(const CodexLine& line) {
  if (line.type != "response_item") return false;
  constexpr std::array<std::string_view, 4> kinds = {"reasoning", "function_call", "custom_tool_call",
                                                     "local_shell_call"};
  return std::ranges::find(kinds, line.kind) != kinds.end() ||
         (line.kind == "message" && json::string_at(line.payload, "role") == "assistant");
}

void CodexScan::take(std::string_view text, std::uint64_t number) {
  if (text.empty() || not_an_object(text)) return;
  const CodexLine line(text, number);
  if (line.type.empty()) return;
  head.saw(line.time);
  if (line.type == "session_meta" && head.id.empty()) {
    any = true;
    head.id = json::string_at(line.payload, "id").value_or("");
    head.cwd = json::string_at(line.payload, "cwd").value_or("");
    head.provider = json::string_at(line.payload, "model_provider").value_or("openai");
    if (const auto began = json::find(line.payload, "timestamp")) head.saw(time_of(*began));
    head.parent = json::string_at(line.payload, "forked_from_id")
                      .value_or(json::string_at(line.payload, "parent_thread_id").value_or(""));
  } else if (line.type == "turn_context") {
    head.model = json::string_at(line.payload, "model").value_or(head.model);
  } else if (is_of_reply(line)) {
    any = true;
    if (!std::exchange(replying_, true)) replies.emplace_back();
  } else if (const Tokens tokens = told_tokens(line); tokens.known) {
    if (!replies.empty()) replies.back() = tokens;
  } else if (line.type == "response_item" || line.type == "compacted") {
    any = true;
    replying_ = false;
  }
}

ForeignEntry CodexReader::entry_of(const CodexLine& line) const {
  ForeignEntry entry{.otherwise = fmt::format("line-{}", line.number), .time = line.time};
  if (line.type == "response_item") entry.id = json::string_at(line.payload, "id").value_or("");
  return entry;
}

Result<void> CodexReader::take(std::string_view text, std::uint64_t number) {
  if (text.empty()) return {};
  if (const auto why = not_an_object(text)) {
    out_.skip(line_place(number), "", *why);
    return {};
  }
  const CodexLine line(text, number);
  if (line.type.empty()) {
    const bool payload = json::find(text, "payload").has_value();
    out_.skip(line.place(), payload ? "/payload" : "/type", payload ? "is not an object" : "is missing");
    return {};
  }
  if (line.bad_time)
    out_.skip(line.place(), "/timestamp", "is no time; the line is taken, with the time of the one before");
  if (line.type == "response_item") return take_item(line);
  if (reply_.open && line.type != "compacted" && line.type != "turn_context") {  // behind the reply, not within it
    later_.emplace_back(text);
    later_numbers_.push_back(number);
    return {};
  }
  if (line.type == "turn_context") return take_context(line);
  if (line.type == "compacted") return take_compaction(line);
  if (line.type == "event_msg") return take_event(line);
  return keep(line);
}

Result<void> CodexReader::keep(const CodexLine& line) {
  const std::string type = line.type == "response_item" || line.type == "event_msg" ? line.kind : line.type;
  TRY(out_.custom(codex_program, type, json::compact(line.payload), entry_of(line)));
  return {};
}

Result<void> CodexReader::take_item(const CodexLine& line) {
  if (line.kind.empty()) {
    out_.skip(line.place(), "/payload/type", "is missing");
    return {};
  }
  if (is_of_reply(line)) return take_reply_part(line);
  TRY(write_reply());
  if (line.kind == "message") return take_message(line);
  if (line.kind == "function_call_output" || line.kind == "custom_tool_call_output" ||
      line.kind == "local_shell_call_output")
    return take_result(line);
  return keep(line);
}

bool CodexReader::add_parts(const CodexLine& line, std::string_view parts, std::string_view pointer, Content& content) {
  const std::string at = std::string(line.pointer).append(pointer);
  if (json::kind(parts) == Kind::string) {
    content.text(parts);
    return true;
  }
  if (json::kind(parts) != Kind::array) {
    out_.skip(line.place(), at, "is neither a string nor an array");
    return false;
  }
  std::size_t index = 0;
  for (const std::string_view part : json::elements(parts)) {
    if (json::kind(part) != Kind::object) {
      out_.skip(line.place(), fmt::format("{}/{}", at, index), "is not an object");
      return false;
    }
    ++index;
    const auto text = member(part, "text", Kind::string);
    const auto url = member(part, "image_url", Kind::string);
    if (text)
      content.text(*text);
    else if (!url || !content.image_of_url(*url))
      content.as_it_is(part);
  }
  return true;
}

Result<void> CodexReader::take_reply_part(const CodexLine& line) {
  Content part;
  if (line.kind == "message") {
    const auto content = json::find(line.payload, "content");
    if (!content) {
      out_.skip(line.place(), std::string(line.pointer) + "/content", "is missing");
      return {};
    }
    if (!add_parts(line, *content, "/content", reply_.content)) return {};
  } else if (line.kind == "reasoning") {
    std::string thought;
    for (const std::string_view name : {"summary", "content"})
      for (const std::string_view each : json::elements(json::find(line.payload, name).value_or("[]"))) {
        if (!thought.empty()) thought += "\n\n";
        thought += json::string_at(each, "text").value_or("");
      }
    reply_.content.thinking(json::quote(thought), json::quote(json::compact(line.payload)));
  } else {
    const auto call =
        member(line.payload,
               line.kind == "local_shell_call" && json::find(line.payload, "call_id") == "null" ? "id" : "call_id",
               Kind::string);
    const auto name = line.kind == "local_shell_call" ? std::optional<std::string_view>("\"local_shell\"")
                                                      : member(line.payload, "name", Kind::string);
    if (!call || !name) {
      out_.skip(line.place(), std::string(line.pointer) + (call ? "/name" : "/call_id"), "is not a string");
      return {};
    }
    std::string arguments;
    if (line.kind == "local_shell_call") {
      arguments = json::compact(member(line.payload, "action", Kind::object).value_or("{}"));
    } else if (line.kind == "custom_tool_call") {
      arguments = fmt::format(R"({{"input":{}}})", json::find(line.payload, "input").value_or("null"));
    } else {
      const std::string given = json::string_at(line.payload, "arguments").value_or("");
      arguments = not_an_object(given.empty() ? "{}" : given) ? fmt::format(R"({{"arguments":{}}})", json::quote(given))
                                                              : json::compact(given.empty() ? "{}" : given);
    }
    reply_.content.call(*call, *name, arguments);
    reply_.calls = true;
    tools_[json::as_string(*call).value_or("")] = json::as_string(*name).value_or("");
  }
  if (std::exchange(reply_.open, true)) return {};
  reply_.entry = entry_of(line);
  return {};
}

Result<void> CodexReader::write_reply() {
  if (!std::exchange(reply_.open, false)) return {};
  const Tokens tokens = replies_ < scan_.replies.size() ? scan_.replies[replies_] : Tokens{};
  ++replies_;
  const std::string members = fmt::format(
      R"("role":"assistant","content":{},"api":"openai-responses","provider":{},"model":{},"usage":{},"stopReason":"{}")",
      reply_.content.take(), json::quote(scan_.head.provider), json::quote(model_), usage_json(tokens),
      std::exchange(reply_.calls, false) ? "toolUse" : "stop");
  TRY(out_.message(members, std::exchange(reply_.entry, {})));
  const auto later = std::exchange(later_, {});
  const auto numbers = std::exchange(later_numbers_, {});
  for (std::size_t i = 0; i < later.size(); ++i) TRY(take(later[i], numbers[i]));
  return {};
}

Result<void> CodexReader::take_message(const CodexLine& line) {
  const std::string role = json::string_at(line.payload, "role").value_or("");
  const auto content = json::find(line.payload, "content");
  if (role.empty() || !content) {
    out_.skip(line.place(), std::string(line.pointer) + (role.empty() ? "/role" : "/content"),
              role.empty() ? "is not a string" : "is missing");
    return {};
  }
  if (role != "user") return keep(line);  // the program's own instructions to the model
  Content parts;
  if (!add_parts(line, *content, "/content", parts)) return {};
  std::string first;
  for (const std::string_view part : json::elements(*content))
    if (first.empty()) first = json::string_at(part, "text").value_or("");
  const bool person = !is_of_codex(first);
  const std::string before = out_.leaf();
  TRY(out_.message(fmt::format(R"("role":"user","content":{}{})", parts.take(), person ? "" : R"(,"synthetic":true)"),
                   entry_of(line)));
  if (person) turns_.push_back(before);
  return {};
}

Result<void> CodexReader::take_result(const CodexLine& line) {
  const auto call = member(line.payload, "call_id", Kind::string);
  auto output = json::find(line.payload, "output");
  if (!call || !output) {
    out_.skip(line.place(), std::string(line.pointer) + (call ? "/output" : "/call_id"),
              call ? "is missing" : "is not a string");
    return {};
  }
  bool failed = false;
  if (json::kind(*output) == Kind::object) {  // {"content","success"}
    failed = json::find(*output, "success") == "false";
    const auto items = json::find(*output, "content_items");
    output = items && json::kind(*items) == Kind::array ? items : json::find(*output, "content");
    if (!output) output = "\"\"";
  }
  Content content;
  if (!add_parts(line, *output, "/output", content)) return {};
  const auto tool = tools_.find(json::as_string(*call).value_or(""));
  const std::string members =
      fmt::format(R"("role":"toolResult","toolCallId":{},"toolName":{},"content":{},"isError":{})", *call,
                  json::quote(tool == tools_.end() ? "" : tool->second), content.take(), failed);
  if (tool != tools_.end()) tools_.erase(tool);
  TRY(out_.message(members, entry_of(line)));
  return {};
}

Result<void> CodexReader::take_context(const CodexLine& line) {
  TRY(write_reply());
  const std::string model = json::string_at(line.payload, "model").value_or("");
  if (model.empty() || model == model_) return keep(line);
  model_ = model;
  ForeignEntry entry = entry_of(line);
  entry.type = "model_change";
  entry.body = fmt::format(R"("provider":{},"modelId":{},"details":{})", json::quote(scan_.head.provider),
                           json::quote(model), json::compact(line.payload));
  TRY(out_.add(std::move(entry)));
  return {};
}

Result<void> CodexReader::take_compaction(const CodexLine& line) {
  TRY(write_reply());
  const auto message = member(line.payload, "message", Kind::string);
  if (!message) {
    out_.skip(line.place(), std::string(line.pointer) + "/message", "is not a string");
    return {};
  }
  std::string summary(*message);
  const auto history = member(line.payload, "replacement_history", Kind::array);
  if (summary == "\"\"" && history) {  // the summary is the last message of what replaces the history
    for (const std::string_view item : json::elements(*history))
      for (const std::string_view part : json::elements(json::find(item, "content").value_or("[]")))
        if (const auto text = member(part, "text", Kind::string)) summary = *text;
    if (summary == "\"\"")
      out_.skip(line.place(), std::string(line.pointer) + "/message",
                "is empty, and the summary is encrypted; the line is taken without it");
  }
  ForeignEntry entry = entry_of(line);
  entry.type = "compaction";
  entry.body = fmt::format(R"("summary":{},"firstKeptEntryId":{},"tokensBefore":0,"details":{})", summary,
                           json::quote(entry.otherwise), json::compact(line.payload));
  TRY(out_.add(std::move(entry)));
  return {};
}

Result<void> CodexReader::take_event(const CodexLine& line) {
  TRY(keep(line));
  if (line.kind != "thread_rolled_back") return {};
  const auto turns =
      static_cast<std::size_t>(std::max<std::int64_t>(0, json::int_at(line.payload, "num_turns").value_or(0)));
  if (turns == 0 || turns > turns_.size()) {
    out_.skip(line.place(), std::string(line.pointer) + "/num_turns", "names more turns than there are; they stay");
    return {};
  }
  out_.set_leaf(turns_[turns_.size() - turns]);  // what follows is another branch
  turns_.resize(turns_.size() - turns);
  return {};
}

Result<void> CodexReader::end() {
  TRY(write_reply());
  return out_.end();
}

}  // namespace sessiond::formats
