// Decisions that archive transcripts: reset and delete a session, delete a topic.
#include <fmt/format.h>

#include <algorithm>

#include "daemon/decide/delivery_steps.hpp"
#include "daemon/decide/free_id.hpp"
#include "daemon/decide/needs.hpp"
#include "daemon/decide/run_steps.hpp"
#include "daemon/decide/takeover_steps.hpp"
#include "daemon/decide/token_counters.hpp"
#include "policy/activation.hpp"
#include "policy/reset.hpp"
#include "store/limits.hpp"
#include "store/names.hpp"
#include "store/try.hpp"
#include "transcripts/archive.hpp"

namespace sessiond::decide {
namespace {

// Lists the transcripts of a session that exist: its own and those of its topics. Sets builder.out.need and returns
// nothing if it is not known where its own ends.
std::optional<std::vector<std::string>> files_of(DecisionBuilder& builder, const Session& session) {
  const AgentState& state = builder.state();
  std::vector<std::string> files;
  const std::string own = AgentState::file_of(session, {});
  const TranscriptEnd* end = state.transcripts.find(own);
  if (end == nullptr) {
    builder.out.need = Need{Need::What::transcript_end, own};
    return {};
  }
  std::vector<std::string> appended;  // by this decision
  appended.reserve(builder.out.transcript_updates.size());
  for (const TranscriptUpdate& update : builder.out.transcript_updates)
    if (!store::is_beside(update.file)) appended.push_back(update.file);
  if (end->size != 0 || std::ranges::find(appended, own) != appended.end()) files.push_back(own);
  if (const auto* topics = state.transcripts.topics(session.session_id)) {
    for (const std::string& topic : *topics) {
      std::string file = AgentState::file_of(session, topic);
      if (file != own && state.may_use(session, file)) files.push_back(std::move(file));
    }
  }
  for (std::string& file : appended)
    if (std::ranges::find(files, file) == files.end()) files.push_back(std::move(file));
  std::erase_if(builder.out.transcript_updates,  // these files get other names in the same commit
                [](const TranscriptUpdate& update) { return !store::is_beside(update.file); });
  return files;
}

// Names the archives that transcripts become.
std::vector<std::string> archive_names(const std::vector<std::string>& files, std::string_view why, std::int64_t now) {
  std::vector<std::string> names;
  names.reserve(files.size());
  for (const std::string& file : files) names.push_back(transcripts::archive_name(file, why, now));
  return names;
}

// The archives that an event makes of a session.
struct Archives {
  std::vector<std::string> names{};  // of its transcripts
  std::string entry_as{};            // of its entry; empty: it is not kept

  // The members of the event's data.
  std::string members() const {
    const std::string told = archived_members(names);
    return entry_as.empty() ? told : told + ",\"entryAs\":" + json::quote(entry_as);
  }
};

Archives archives_of(DecisionBuilder& builder, const Session& session, const std::vector<std::string>& files,
                     std::string_view why) {
  if (!builder.context().durable) return {};
  const std::int64_t time = builder.context().ids->archive_time(builder.context().now);
  Archives archives{.names = archive_names(files, why, time)};
  archives.entry_as = transcripts::archive_name(AgentState::file_of(session, {}), why, time);
  archives.entry_as += transcripts::entry_suffix;
  return archives;
}

// Clients are told the first names and how many more there are (archived_members). The journal keeps the others, and
// the entry, in line positions (store/journal/line_position.hpp) of the event, which must be the next one.
void keep_untold(DecisionBuilder& builder, const Archives& archives, const std::string& entry) {
  const journal::LinePosition position{.agent = builder.state().id(), .seq = builder.next_seq()};
  if (archives.names.size() > limits::archive_names) {
    builder.out.line_positions.push_back(position);
    builder.out.line_positions.back().archives = {archives.names.begin() + limits::archive_names, archives.names.end()};
  }
  if (archives.entry_as.empty()) return;
  builder.out.line_positions.push_back(position);
  builder.out.line_positions.back().file = archives.entry_as;
  builder.out.line_positions.back().entry = entry;
}

// Deletes a session. Its transcripts become archives, whose names have the word `archived`, and are destroyed by a
// purge. `reason`: of maintenance; empty for a client's deletion.
Result<Decision> remove_session(DecisionBuilder& builder, Session session, std::string_view archived,
                                std::string_view reason, bool purge) {
  builder.out.status = 204;
  TRY(end_all(builder, session, "the session is deleted"));
  if (builder.out.need) return std::move(builder.out);
  end_takeover(builder, session);
  const auto files = files_of(builder, session);
  if (!files) return std::move(builder.out);
  if (!purge && builder.context().durable) builder.out.ending = *files;
  Archives archives = archives_of(builder, session, *files, archived);
  if (purge) archives.entry_as.clear();
  std::string data = fmt::format(R"({{{},"purged":{})", archives.members(), purge || !builder.context().durable);
  if (!reason.empty()) data += fmt::format(R"(,"reason":{})", json::quote(reason));
  if (purge && !builder.state().archives.has_archives(session.session_id)) data += ",\"changes\":true";
  if (purge) fail_purged_deliveries(builder, session);
  keep_untold(builder, archives, *session.entry());
  builder.emit(journal::EventType::session_deleted, session, data + "}");
  builder.out.through_checkpoint = true;
  return std::move(builder.out);
}

}  // namespace

Result<ResetResult> reset_session(DecisionBuilder& builder, Session& session, const Reset& reset) {
  const Context& context = builder.context();
  TRY(end_all(builder, session, "the session is reset"));
  if (builder.out.need) return ResetResult{};
  const auto files = files_of(builder, session);
  if (!files) return ResetResult{};
  const Archives archives = archives_of(builder, session, *files, "reset");
  ResetResult done{.previous_session_id = session.session_id, .archived_as = archives.names};

  const sessions::RawEntry before = session.entry();
  const std::string history = longer_history(*before, {.time = context.now,
                                                       .session_id = done.previous_session_id,
                                                       .reason = std::string(reset.reason),
                                                       .archived_as = done.archived_as});
  json::Edit edit = reset.entry ? *reset.entry : policy::reset_edit(*session.entry(), reset.keep_metadata);
  edit.put_string("sessionId",
                  reset.session_id.empty() ? fresh_session_id(builder.state(), context) : reset.session_id);
  if (const std::string id = json::as_string(*value_of(edit, "sessionId")).value_or(""); id != session.session_id)
    name_thread_file(builder, session.key(), id, edit);
  edit.put_int("updatedAt", moved_to(session, context.now));
  if (!value_of(edit, "sessionStartedAt")) edit.put_int("sessionStartedAt", context.now);
  if (!value_of(edit, "entryCount")) put_counts(edit, {});
  edit.put("previousSessions", history);
  if (takeover_of(builder.state(), session) != nullptr) std::erase(edit.unset, "sendPolicy");  // it goes on
  // A transcript that comes with the reset has told what the model was shown.
  if (context.rules->shared && reset.files.empty()) edit.put(std::string(fresh_member), "false");
  if (policy::wants_intro(session.chat_type)) edit.put(std::string(policy::intro_field), "true");
  const bool cleared = reset.event == journal::EventType::context_cleared;
  const std::string more =
      cleared ? archives.members()
              : fmt::format(R"("previousSessionId":{},{},"reason":{})", json::quote(done.previous_session_id),
                            archives.members(), json::quote(reset.reason));
  keep_untold(builder, archives, entry_before_takeover(builder.state(), session, *before));
  take_staged(builder, session.key(), json::as_string(*value_of(edit, "sessionId")).value_or(""), reset.files);
  builder.update(session, std::move(edit), reset.event, more);
  tell_staged(builder, session, reset.files);
  builder.out.through_checkpoint = true;
  return done;
}

Decision answer_reset(DecisionBuilder& builder, const Session& session, const ResetResult& done) {
  Decision out = answer_session(builder, session, 200);
  out.body.pop_back();
  if (done.previous_session_id != session.session_id)
    out.body += ",\"previousSessionId\":" + json::quote(done.previous_session_id);
  out.body += "," + archived_members(done.archived_as) + "}";
  return out;
}

Result<Decision> decide(const AgentState& state, const DeleteSession& command, const Context& context) {
  DecisionBuilder builder(state, context);
  builder.out.status = 204;
  if (command.missing_ok && state.find(command.target.key) == nullptr) return std::move(builder.out);
  TRY(const auto there, resolve(state, command.target));
  return remove_session(builder, *there, "deleted", "", command.purge);
}

Result<Decision> decide(const AgentState& state, const PruneSession& command, const Context& context) {
  DecisionBuilder builder(state, context);
  const Session* there = state.find_key(command.key);
  if (there == nullptr || there->last_seq != command.last_seq || there->updated_at != command.updated_at ||
      !(command.protection != nullptr ? *command.protection : Protection()).keeps(state, *there).empty())
    return std::move(builder.out);
  return remove_session(builder, *there, "pruned", command.reason, command.purge);
}

Result<Decision> decide(const AgentState& state, const ResetSession& command, const Context& context) {
  DecisionBuilder builder(state, context);
  TRY(const auto there, resolve(state, command.target));
  Session session = *there;
  TRY(const auto done,
      reset_session(builder, session, {.reason = command.reason, .keep_metadata = command.keep_metadata}));
  if (builder.out.need) return std::move(builder.out);
  return answer_reset(builder, session, done);
}

Result<Decision> decide(const AgentState& state, const ClearSession& command, const Context& context) {
  DecisionBuilder builder(state, context);
  TRY(const auto there, resolve(state, command.target));
  Session session = *there;
  TRY(const auto done, reset_session(builder, session,
                                     {.reason = "cleared",
                                      .session_id = there->session_id,
                                      .entry = policy::clear_edit(*session.entry()),
                                      .event = journal::EventType::context_cleared}));
  if (builder.out.need) return std::move(builder.out);
  return answer_reset(builder, session, done);
}

Result<Decision> decide(const AgentState& state, const DeleteTopic& command, const Context& context) {
  DecisionBuilder builder(state, context);
  builder.out.status = 204;
  TRY(const auto there, resolve(state, command.target));
  Session session = *there;
  const auto* topics = state.transcripts.topics(session.session_id);
  const std::string file = AgentState::file_of(session, command.topic);
  if (topics == nullptr || !topics->contains(command.topic) || !state.may_use(session, file)) {
    return fail(Code::not_found, fmt::format("{} has no topic {}", session.key(), command.topic));
  }
  TRY(end_all(builder, session, "the topic is deleted", command.topic));
  if (builder.out.need) return std::move(builder.out);
  // The file gets another name in the same commit.
  std::erase_if(builder.out.transcript_updates,
                [&file](const TranscriptUpdate& update) { return update.file == file; });
  json::Edit edit;
  edit.put_int("updatedAt", moved_to(session, context.now));
  if (!session.needs.empty()) {
    std::string needs = without_need(session.needs, command.topic);
    if (needs.empty())
      edit.remove("needs");
    else
      edit.put("needs", std::move(needs));
  }
  std::vector<std::string> names;
  if (context.durable) names = archive_names({file}, "deleted", context.ids->archive_time(context.now));
  if (context.durable) builder.out.ending = {file};
  json::ObjectWriter data;
  data.raw("archivedAs", json::array_of(names));
  json::append_edit(data, edit);
  builder.emit(journal::EventType::topic_deleted, session, data.text(), command.topic);
  return std::move(builder.out);
}

}  // namespace sessiond::decide
