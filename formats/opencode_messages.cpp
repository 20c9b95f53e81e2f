#include "formats/opencode_messages.hpp"

#include <fmt/format.h>

#include <utility>

#include "store/names.hpp"
#include "store/try.hpp"
#include "transcripts/members.hpp"

namespace sessiond::formats {
namespace {

using transcripts::text_at;

using json::Kind;

Tokens opencode_tokens(std::string_view object) {
  const auto tokens = member(object, "tokens", Kind::object);
  if (!tokens) return {};
  const auto cache = member(*tokens, "cache", Kind::object).value_or("{}");
  return {.input = json::int_at(*tokens, "input").value_or(0),
          .output = json::int_at(*tokens, "output").value_or(0) + json::int_at(*tokens, "reasoning").value_or(0),
          .cache_read = json::int_at(cache, "read").value_or(0),
          .cache_write = json::int_at(cache, "write").value_or(0),
          .known = true};
}

std::optional<std::int64_t> time_at(std::string_view object, std::string_view name) {
  const auto times = member(object, "time", Kind::object);
  const auto at = times ? json::find(*times, name) : std::nullopt;
  return at ? time_of(*at) : std::nullopt;
}

void join(std::string& list, std::string_view text) { list.append(list.empty() ? "" : ",").append(text); }

}  // namespace

Result<void> OpencodeReader::begin(const ForeignHead& head, std::string_view info, std::string reverted) {
  reverted_ = std::move(reverted);
  TRY(out_.begin(head));
  TRY(out_.custom("opencode", "session", info, {.otherwise = "session", .time = head.started}));
  return {};
}

void OpencodeReader::add_part(Content& content, const OpencodePart& part, std::string& kept) {
  const std::string type = text_at(part.text, "type");
  const auto text = member(part.text, "text", Kind::string);
  const auto url = member(part.text, "url", Kind::string);
  if (type == "text" && text) return content.text(*text);
  if (type == "reasoning" && text) {
    content.thinking(*text, "");
    if (!json::find(part.text, "metadata")) return;
  }
  if (type == "file" && url && content.image_of_url(*url)) return;
  join(kept, json::compact(part.text));
}

std::vector<const OpencodePart*> OpencodeReader::checked_parts(const OpencodeMessage& message) {
  std::vector<const OpencodePart*> parts;
  for (const OpencodePart& part : message.parts) {
    if (const auto why = not_an_object(part.text))
      out_.skip(part.place, "", *why);
    else if (!member(part.text, "type", Kind::string))
      out_.skip(part.place, "/type", "is not a string");
    else
      parts.push_back(&part);
  }
  return parts;
}

Result<void> OpencodeReader::take(const OpencodeMessage& message) {
  if (const auto why = not_an_object(message.text)) {
    out_.skip(message.place, "", *why);
    return {};
  }
  if (message.id == reverted_) undone_from_ = out_.leaf();
  if (!time_at(message.text, "created"))
    out_.skip(message.place, "/time/created", "is no time; the message is taken, with the time of the one before");
  const std::string role = text_at(message.text, "role");
  if (role == "user") return take_user(message);
  if (role == "assistant") return take_assistant(message);
  out_.skip(message.place, "/role", "is neither \"user\" nor \"assistant\"");
  return {};
}

Result<void> OpencodeReader::take_user(const OpencodeMessage& message) {
  Content content;
  std::string kept;
  bool person = false;
  for (const OpencodePart* part : checked_parts(message)) {
    if (text_at(part->text, "type") == "compaction") tail_ = text_at(part->text, "tail_start_id");
    person = person || json::find(part->text, "synthetic") != "true";
    add_part(content, *part, kept);
  }
  const ForeignEntry entry{.id = message.id, .otherwise = "message", .time = time_at(message.text, "created")};
  const std::string rest = fmt::format(R"({{"message":{},"parts":[{}]}})", json::compact(message.text), kept);
  if (content.empty()) {
    TRY(out_.custom("opencode", "message", rest, entry));
    return {};
  }
  TRY(out_.message(fmt::format(R"("role":"user","content":{}{})", content.take(), person ? "" : R"(,"synthetic":true)"),
                   entry, "\"opencode\":" + rest));
  return {};
}

Result<void> OpencodeReader::write_summary(const OpencodeMessage& message, std::string text) {
  ForeignEntry entry{
      .type = "compaction", .id = message.id, .otherwise = "message", .time = time_at(message.text, "created")};
  const std::string kept = std::exchange(tail_, "");
  entry.body = fmt::format(R"("summary":{},"firstKeptEntryId":{},"tokensBefore":{},"opencode":{{"message":{}}})",
                           json::quote(text), json::quote(out_.has(kept) ? kept : message.id),
                           opencode_tokens(message.text).input, json::compact(message.text));
  TRY(out_.add(std::move(entry)));
  return {};
}

Result<void> OpencodeReader::take_assistant(const OpencodeMessage& message) {
  const auto parts = checked_parts(message);
  if (json::find(message.text, "summary") == "true") {
    std::string text;
    for (const OpencodePart* part : parts)
      if (text_at(part->text, "type") == "text")
        text.append(text.empty() ? "" : "\n").append(text_at(part->text, "text"));
    return write_summary(message, std::move(text));
  }
  Step step{.id = message.id};
  for (const OpencodePart* part : parts) {
    const std::string type = text_at(part->text, "type");
    if (type == "step-start" && step.any) {
      TRY(write_step(message, step, false));
      step = Step{.id = part->id};
    }
    if (type == "step-finish") step.finish = part->text;
    if (type != "step-start") step.any = true;
    if (type == "step-start" || type == "step-finish") {
      join(step.kept, json::compact(part->text));
    } else if (type == "tool") {
      const auto call = member(part->text, "callID", Kind::string);
      const auto name = member(part->text, "tool", Kind::string);
      const auto state = member(part->text, "state", Kind::object);
      if (!call || !name || !state) {
        out_.skip(part->place, call ? name ? "/state" : "/tool" : "/callID",
                  call && name ? "is not an object" : "is not a string");
        continue;
      }
      step.content.call(*call, *name, json::compact(member(*state, "input", Kind::object).value_or("{}")));
      step.tools.push_back(part);
    } else {
      add_part(step.content, *part, step.kept);
    }
  }
  return write_step(message, step, true);
}

Result<void> OpencodeReader::write_step(const OpencodeMessage& message, Step& step, bool last) {
  // Earlier versions wrote all steps into one message, whose tokens are those of the last one.
  const Tokens tokens = opencode_tokens(step.finish.empty() ? message.text : step.finish);
  const auto error = member(message.text, "error", Kind::object);
  const bool failed = last && error;
  const bool aborted = failed && text_at(*error, "name") == "MessageAbortedError";
  std::string members =
      fmt::format(R"("role":"assistant","content":{},"provider":{},"model":{},"usage":{},"stopReason":"{}")",
                  step.content.take(), json::quote(text_at(message.text, "providerID")),
                  json::quote(text_at(message.text, "modelID")), usage_json(tokens),
                  aborted                                       ? "aborted"
                  : failed                                      ? "error"
                  : !step.tools.empty()                         ? "toolUse"
                  : text_at(message.text, "finish") == "length" ? "length"
                                                                : "stop");
  if (failed) {
    const auto data = member(*error, "data", Kind::object);
    members += fmt::format(
        R"(,"errorMessage":{})",
        json::quote(data && !text_at(*data, "message").empty() ? text_at(*data, "message") : text_at(*error, "name")));
  }
  TRY(out_.message(members, {.id = step.id, .otherwise = "message", .time = time_at(message.text, "created")},
                   fmt::format(R"("opencode":{{"message":{},"parts":[{}]}})", json::compact(message.text), step.kept)));
  for (const OpencodePart* part : step.tools) TRY(write_result(*part));
  return {};
}

Result<void> OpencodeReader::write_result(const OpencodePart& part) {
  const std::string_view state = *member(part.text, "state", Kind::object);
  const std::string status = text_at(state, "status");
  if (status != "completed" && status != "error") return {};  // the call was interrupted: it has no result
  Content content;
  const auto output = member(state, status == "error" ? "error" : "output", Kind::string);
  if (output) content.text(*output);
  std::string kept;
  for (const std::string_view each : json::elements(member(state, "attachments", Kind::array).value_or("[]"))) {
    const auto url = member(each, "url", Kind::string);
    if (!url || !content.image_of_url(*url)) join(kept, json::compact(each));
  }
  std::string members = fmt::format(R"("role":"toolResult","toolCallId":{},"toolName":{},"content":{},"isError":{})",
                                    *member(part.text, "callID", Kind::string),
                                    *member(part.text, "tool", Kind::string), content.take(), status == "error");
  if (const auto details = member(state, "metadata", Kind::object))
    members += fmt::format(R"(,"details":{})", json::compact(*details));
  TRY(out_.message(members, {.id = part.id, .otherwise = "part", .time = time_at(state, "end")},
                   kept.empty() ? "" : fmt::format(R"("opencode":{{"attachments":[{}]}})", kept)));
  return {};
}

Result<void> OpencodeReader::end() {
  if (undone_from_) out_.set_leaf(*undone_from_);
  return out_.end();
}

}  // namespace sessiond::formats
