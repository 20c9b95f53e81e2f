#include "daemon/decide/session_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "policy/context/entry.hpp"
#include "store/limits.hpp"
#include "store/names.hpp"
#include "store/try.hpp"
#include "store/utf8.hpp"

namespace sessiond::decide {
namespace {

constexpr auto line_kinds = std::to_array<std::string_view>(
    {"session_init", "server_tool", "pre_run", "provider_request", "provider_response_normalized", "tool_batch_started",
     "tool_execution_request", "tool_execution_result", "text_delta", "assistant", "session_shutdown", "error"});

constexpr std::string_view full_mark = "log_full.";  // how the id of the last line of a full log begins

std::string quoted_length(std::string_view text) {
  return fmt::format(R"({{"length":{}}})", store::count_code_points(text));
}

// A value of the entry, as it is logged: whole, or its length.
std::string value_for_log(const Context& context, std::string_view raw) {
  if (context.rules->log.mode == LogRules::Mode::full) return json::compact(raw);
  if (const auto text = json::as_string(raw)) return quoted_length(*text);
  return raw == "null" ? "null" : quoted_length(json::compact(raw));
}

class LogAppender {
 public:
  LogAppender(DecisionBuilder& builder, const Session& session)
      : builder_(builder), session_(session), file_(store::log_file(session.session_id)) {}

  std::optional<Logged> append(const std::vector<LogLine>& lines) {
    TranscriptEnd* end = find_end();
    if (end == nullptr) {
      builder_.out.need = Need{Need::What::transcript_end, file_};
      return {};
    }
    std::optional<Logged> logged;
    for (const LogLine& line : lines) {
      if (end->last_id.starts_with(full_mark)) break;
      std::string id = builder_.context().ids->entry_id();
      std::string text = text_of(line, id, end->count);
      if (end->size + text.size() >= builder_.context().rules->log.file_bytes) {
        id.insert(0, full_mark);
        text = text_of(full_line(line.run_id), id, end->count);
      }
      if (!logged) logged.emplace().first_seq = end->count;
      logged->last_seq = end->count;
      builder_.emit(journal::EventType::log_appended, session_, "{\"entry\":" + text + "}");
      text += '\n';
      place_line(builder_, *end, file_, builder_.next_seq() - 1,
                 {.made = journal::MadeLine{.text = std::move(text), .id = id, .seq = end->count}});
      end->last_id = std::move(id);
      ++end->count;
      end->last_seq = builder_.next_seq() - 1;
    }
    return logged;
  }

  // Null: it is not known.
  TranscriptEnd* find_end() {
    const auto mine = std::ranges::find(builder_.out.transcript_updates, file_, &TranscriptUpdate::file);
    if (mine != builder_.out.transcript_updates.end()) return &mine->end;
    const TranscriptEnd* end = builder_.state().transcripts.find(file_);
    if (end == nullptr) return nullptr;
    builder_.out.transcript_updates.push_back({.file = file_, .end = *end});
    return &builder_.out.transcript_updates.back().end;
  }

 private:
  std::string text_of(const LogLine& line, std::string_view id, std::uint64_t seq) const {
    std::string text = fmt::format(R"({{"seq":{},"time":{},"type":"{}")", seq, builder_.context().now, line.type);
    if (!line.run_id.empty()) text.append(",\"runId\":").append(json::quote(line.run_id));
    if (!line.members.empty()) text.append(",").append(line.members);
    return text.append(",\"id\":\"").append(id).append("\"}");
  }

  LogLine full_line(const std::string& run_id) const {
    return {.type = "error",
            .run_id = run_id,
            .members = fmt::format(R"("code":"log_full","message":"the log has {} bytes, as many as limits.logBytes )"
                                   R"(allows: nothing more is written to it")",
                                   builder_.context().rules->log.file_bytes)};
  }

  DecisionBuilder& builder_;
  const Session& session_;
  std::string file_;
};

// The seq of the last entry of a transcript, with what this decision has appended; "null": it has none.
std::string last_seq_of(const DecisionBuilder& builder, const std::string& file) {
  const TranscriptEnd* end = builder.transcript_end(file);
  return end == nullptr || end->count == 0 ? "null" : std::to_string(end->count - 1);
}

void put_model(json::ObjectWriter& out, const Run& run) {
  out.string("provider", run.provider);
  out.string("model", run.model);
}

std::string without_braces(const std::string& object) { return object.substr(1, object.size() - 2); }

LogLine init_line(const DecisionBuilder& builder, const Session& session, const Run& run) {
  const Context& context = builder.context();
  const json::Index entry(*session.entry_with_old_counters());
  json::ObjectWriter out;
  const std::string_view prompt = entry.find("systemPrompt").value_or("null");
  out.raw("systemPrompt", value_for_log(context, prompt));
  const auto text = json::as_string(prompt);
  out.integer("systemPromptLength",
              static_cast<std::int64_t>(text               ? store::count_code_points(*text)
                                        : prompt == "null" ? 0
                                                           : store::count_code_points(json::compact(prompt))));
  put_model(out, run);
  const std::string cwd = entry.string_at("cwd").value_or("");
  out.string("cwd", cwd.empty() ? context.rules->cwd : cwd);
  out.raw("toolSchemas", value_for_log(context, entry.find("toolSchemas").value_or("null")));
  return {.type = "session_init", .run_id = run.id, .members = without_braces(out.text())};
}

std::string names_of(const std::vector<context::ToolCall>& calls) {
  std::vector<std::string> names;
  names.reserve(calls.size());
  for (const context::ToolCall& call : calls) names.push_back(call.name);
  return json::array_of(names);
}

// Tells whether this decision has written the last line of a log that is full.
bool is_full(const DecisionBuilder& builder) {
  return std::ranges::any_of(builder.out.transcript_updates, [](const TranscriptUpdate& update) {
    return store::is_log_file(update.file) && update.end.last_id.starts_with(full_mark);
  });
}

bool is_assistant(const transcripts::NewEntry& entry) { return entry.role == "assistant"; }

}  // namespace

std::span<const std::string_view> log_kinds() { return line_kinds; }

std::string log_text(const Context& context, std::string_view text) {
  return context.rules->log.mode == LogRules::Mode::full ? json::quote(text) : quoted_length(text);
}

std::string log_structure(std::string_view message) {
  const context::Entry entry = context::read_entry("message", message);
  json::ObjectWriter out;
  const std::string role = json::string_at(message, "role").value_or("");
  out.string("role", role == "toolResult" ? "tool" : role);
  const std::string text = transcripts::text_of(json::find(message, "content").value_or("\"\""));
  out.integer("contentLength", static_cast<std::int64_t>(store::count_code_points(text)));
  out.boolean("hasToolCalls", !entry.calls.empty());
  out.raw("toolCallNames", names_of(entry.calls));
  json::ObjectWriter metadata;
  for (const std::string_view name : {"api", "provider", "model", "usage", "stopReason", "state"})
    if (const auto value = json::find(message, name)) metadata.raw(name, json::compact(*value));
  out.raw("metadata", metadata.text());
  return out.text();
}

std::optional<Logged> append_log(DecisionBuilder& builder, const Session& session, const std::vector<LogLine>& lines) {
  return LogAppender(builder, session).append(lines);
}

void log_run_start(DecisionBuilder& builder, const Session& session, const Run& run, std::string_view input) {
  const Context& context = builder.context();
  if (!keeps_log(context)) return;
  const TranscriptEnd* end = LogAppender(builder, session).find_end();
  if (end == nullptr) {
    builder.out.need = Need{Need::What::transcript_end, store::log_file(session.session_id)};
    return;
  }
  std::vector<LogLine> lines;
  const SessionRuns* runs = builder.state().runs.find(session.key());
  if (runs == nullptr || !runs->opening.is_open || end->count == 0) lines.push_back(init_line(builder, session, run));
  json::ObjectWriter out;
  out.string("provider", run.provider);
  out.boolean("webToolsEnabled", json::find(*session.entry_with_old_counters(), "webToolsEnabled") == "true");
  std::string whole(input);
  if (!run.additional_context.empty()) whole.append(whole.empty() ? "" : "\n").append(run.additional_context);
  out.raw("input", log_text(context, whole));
  out.raw("historyThroughSeq", last_seq_of(builder, AgentState::file_of(session, run.topic)));
  lines.push_back({.type = "pre_run", .run_id = run.id, .members = without_braces(out.text())});
  append_log(builder, session, lines);
}

void log_run_end(DecisionBuilder& builder, const Session& session, const Run& run,
                 std::span<const transcripts::NewEntry> appended, const FetchedLines& lines) {
  const Context& context = builder.context();
  if (!keeps_log(context)) return;
  std::vector<LogLine> all;
  if (!run.response.empty() || std::ranges::any_of(appended, is_assistant)) {
    const std::string file = AgentState::file_of(session, run.topic);
    const TranscriptEnd* before = builder.state().transcripts.find(file);
    const auto history = lines.find(std::string(history_name));
    if (before != nullptr && before->count != 0 && (history == lines.end() || history->second.seq != before->count)) {
      builder.out.need = Need{Need::What::history, file};
      return;
    }
    std::string structure = history == lines.end() ? "[]" : history->second.line;
    structure.pop_back();
    for (const transcripts::NewEntry& entry : appended) {
      if (entry.type != "message") continue;
      structure.append(structure.size() > 1 ? "," : "").append(log_structure(entry.body));
    }
    json::ObjectWriter out;
    out.raw("content", log_text(context, run.response));
    out.raw("historyThroughSeq", last_seq_of(builder, file));
    out.raw("historyStructure", structure + "]");
    all.push_back({.type = "assistant", .run_id = run.id, .members = without_braces(out.text())});
  }
  if (!run.error.empty()) {
    json::ObjectWriter out;
    out.string("code", json::string_at(run.error, "code").value_or(""));
    out.raw("message", log_text(context, json::string_at(run.error, "message").value_or("")));
    all.push_back({.type = "error", .run_id = run.id, .members = without_braces(out.text())});
  }
  if (!all.empty()) append_log(builder, session, all);
}

void log_delta(DecisionBuilder& builder, const Session& session, const Run& run, std::string_view text) {
  if (!keeps_log(builder.context())) return;
  append_log(builder, session,
             {{.type = "text_delta", .run_id = run.id, .members = "\"text\":" + log_text(builder.context(), text)}});
}

void log_shutdown(DecisionBuilder& builder, const Session& session, std::string_view reason) {
  if (!keeps_log(builder.context())) return;
  append_log(builder, session, {{.type = "session_shutdown", .members = "\"reason\":" + json::quote(reason)}});
}

Result<Decision> decide(const AgentState& state, const AppendLog& command, const Context& context) {
  DecisionBuilder builder(state, context);
  TRY(const Session* session, resolve(state, command.target));
  if (!keeps_log(context))
    return fail(Code::session_log_off,
                context.durable ? "no log is kept: sessionLog is off" : "no log is kept of an ephemeral session");
  std::vector<LogLine> lines = command.lines;
  if (context.run != nullptr)
    for (LogLine& line : lines)
      if (line.run_id.empty()) line.run_id = context.run->run_id;
  const std::size_t wanted = lines.size();
  const auto logged = append_log(builder, *session, lines);
  if (builder.out.need) return std::move(builder.out);
  if (!logged || logged->last_seq - logged->first_seq + 1 != wanted || is_full(builder))
    return fail(Code::content_too_large, fmt::format("the log of {} has no room for that (limits.logBytes is {})",
                                                     session->key(), context.rules->log.file_bytes));
  json::ObjectWriter body(builder.out.body);
  body.string("sessionId", session->session_id);
  body.integer("firstSeq", static_cast<std::int64_t>(logged->first_seq));
  body.integer("lastSeq", static_cast<std::int64_t>(logged->last_seq));
  body.string("asOf", builder.as_of());
  body.close();
  builder.out.status = 201;
  return std::move(builder.out);
}

}  // namespace sessiond::decide
