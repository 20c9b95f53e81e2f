// Decisions about what a model is shown of a session: compaction, and results of calls that were interrupted.
#include <fmt/format.h>

#include "daemon/decide/hooks.hpp"
#include "daemon/decide/steps.hpp"
#include "policy/context/tool_pairs.hpp"
#include "policy/context/window.hpp"
#include "store/json/raw_json.hpp"
#include "store/try.hpp"

namespace sessiond::decide {
namespace {

// Returns the measured transcript. Null: builder.out.need asks for it.
const context::Meter* meter_of(DecisionBuilder& builder, const Session& session, const std::string& file) {
  const TranscriptEnd* end = builder.state().transcripts.find(file);
  if (end != nullptr && end->meter) return end->meter.get();
  builder.out.need = Need{end == nullptr ? Need::What::transcript_end : Need::What::meter,
                          file,
                          {},
                          builder.state().order_of(session, file)};
  return nullptr;
}

// Tells whether a topic has a transcript; nothing is read for one that has none. not_found if its file is another
// session's.
Result<bool> has_transcript(const AgentState& state, const Session& session, const std::optional<std::string>& topic) {
  if (!topic || topic == session.own_topic()) return true;
  const std::string file = AgentState::file_of(session, topic);
  if (!state.may_use(session, file))
    return fail(Code::not_found, fmt::format("{} has no topic {}", session.key(), *topic));
  const auto* topics = state.transcripts.topics(session.session_id);
  return (topics != nullptr && topics->contains(*topic)) || state.transcripts.find(file) != nullptr;
}

std::unexpected<Problem> not_on_path(const std::string& first_kept) {
  return fail_at("/firstKeptEntryId",
                 fmt::format("there is no entry {} on the path to the last entry of this transcript", first_kept));
}

// Other programs keep what follows KeptEntry::first_in_file in the file; we, what follows the command's entry in the
// order of runs. None of them loses what is kept.
transcripts::NewEntry compaction_entry(const CompactSession& command, const transcripts::KeptEntry& kept,
                                       std::int64_t tokens_before) {
  json::ObjectWriter members;
  members.string("summary", command.summary);
  members.string("firstKeptEntryId", kept.first_in_file);
  members.integer("tokensBefore", tokens_before);
  if (!command.usage.empty() || !command.instructions.empty() || kept.kept.first_shown) {
    json::ObjectWriter details;
    kept.kept.write(details);
    if (!command.usage.empty()) details.raw("usage", command.usage);
    if (!command.instructions.empty()) details.string("instructions", command.instructions);
    members.raw("details", details.text());
  }
  const std::string object = members.text();
  return {.type = "compaction", .body = object.substr(1, object.size() - 2)};
}

}  // namespace

Result<Decision> decide(const AgentState& state, const CompactSession& command, const Context& context,
                        const FetchedLines& lines) {
  DecisionBuilder builder(state, context);
  TRY(const auto there, resolve_open(state, command.target));
  Session session = *there;
  TRY(const bool is_there, has_transcript(state, session, command.topic));
  if (!is_there) return not_on_path(command.first_kept);
  const std::string file = AgentState::file_of(session, command.topic);
  const context::Meter* meter = meter_of(builder, session, file);
  if (meter == nullptr) return std::move(builder.out);
  const auto kept = context.kept->find(file + '\n' + command.first_kept);
  // An answer counts as long as no checkpoint and no branch came since: entries that follow change nothing.
  if (kept == context.kept->end() || kept->second.checkpoint != meter->checkpoint ||
      kept->second.branches != meter->branches) {
    builder.out.need = Need{.what = Need::What::kept,
                            .file = file,
                            .ids = {command.first_kept},
                            .order = state.order_of(session, file),
                            .name = state.transcript_name_of(file)};
    return std::move(builder.out);
  }
  if (!kept->second.on_path) return not_on_path(command.first_kept);
  if (!kept->second.beyond_last)
    return fail(Code::nothing_to_compact,
                fmt::format("{} is not behind the first entry that the last compaction keeps", command.first_kept));
  const std::int64_t tokens_before = meter->used();
  if (context::is_exceeded(*session.entry_with_old_counters(), state.transcript_name_of(file))) {  // it is shorter now
    json::Edit edit;
    edit.remove("contextExceeded");
    builder.update(session, edit);
  }
  AppendRequest append{.topic = command.topic, .entries = {compaction_entry(command, kept->second, tokens_before)}};
  TRY(const auto appended, append_entries(builder, session, append, lines, false));
  if (builder.out.need) return std::move(builder.out);
  json::ObjectWriter data;
  data.string("summaryEntryId", appended.ids.front());
  data.string("summary", command.summary);
  data.integer("tokensBefore", tokens_before);
  data.string("firstKeptEntryId", command.first_kept);
  builder.emit(journal::EventType::context_compacted, session, data.text(), command.topic);
  json::ObjectWriter input;
  put_input(input, "summary", command.summary);
  call_hooks(builder, session, {.name = "PostCompact", .input = input.text(), .topic = command.topic});
  builder.out.status = 201;
  json::ObjectWriter writer(builder.out.body);
  writer.string("entryId", appended.ids.front());
  writer.integer("compactionCount", session.compaction_count.value_or(0) + 1);
  writer.integer("tokensBefore", tokens_before);
  writer.string("asOf", builder.as_of());
  writer.close();
  return std::move(builder.out);
}

Result<Decision> decide(const AgentState& state, const FailCompaction& command, const Context& context) {
  DecisionBuilder builder(state, context);
  TRY(const auto there, resolve_open(state, command.target));
  TRY(has_transcript(state, *there, command.topic));
  json::ObjectWriter data;
  data.raw("error", command.error);
  builder.emit(journal::EventType::compaction_failed, *there, data.text(), command.topic);
  json::ObjectWriter writer(builder.out.body);
  writer.boolean("recorded", true);
  writer.string("asOf", builder.as_of());
  writer.close();
  return std::move(builder.out);
}

Result<Decision> decide(const AgentState& state, const RepairSession& command, const Context& context,
                        const FetchedLines& lines) {
  DecisionBuilder builder(state, context);
  TRY(const auto there, resolve_open(state, command.target));
  const Session& session = *there;
  TRY(const bool is_there, has_transcript(state, session, command.topic));
  const context::Meter none;
  const context::Meter* meter =
      is_there ? meter_of(builder, session, AgentState::file_of(session, command.topic)) : &none;
  if (meter == nullptr) return std::move(builder.out);
  AppendRequest append{.topic = command.topic};
  std::vector<std::string> calls;
  for (const context::KeptCall& call : meter->calls.open()) {
    calls.push_back(call.id);
    const std::string role(call.spelling == context::Spelling::pi       ? "toolResult"
                           : call.spelling == context::Spelling::openai ? "tool"
                                                                        : "user");
    append.entries.push_back(
        {.type = "message", .body = context::interrupted_result(call), .role = role, .stamp = true});
  }
  AppendResult appended;
  if (!append.entries.empty() && !command.dry_run) {
    TRY(appended, append_entries(builder, session, append, lines, false));
    if (builder.out.need) return std::move(builder.out);
  }
  std::string added = "[";
  for (std::size_t index = 0; index < calls.size(); ++index) {
    if (index > 0) added += ',';
    json::ObjectWriter one(added);
    one.string("callId", calls[index]);
    if (index < appended.ids.size())
      one.string("entryId", appended.ids[index]);
    else
      one.raw("entryId", "null");
    one.close();
  }
  json::ObjectWriter writer(builder.out.body);
  writer.raw("added", added + "]");
  writer.string("asOf", builder.as_of());
  writer.close();
  return std::move(builder.out);
}

}  // namespace sessiond::decide
