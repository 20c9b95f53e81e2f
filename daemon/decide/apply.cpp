#include "daemon/decide/apply.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "store/json/raw_json.hpp"
#include "store/names.hpp"

namespace sessiond::decide {
namespace {

void mark_dirty(AgentState& state, const journal::Event& event, const std::string& key) {
  state.dirty.insert(key);
  if (event.envelope.source != "external") state.changed_by_us.insert(key);
}

// Returns whether events of this type change an entry without giving it a new rev: those of messages and runs do, which
// are too frequent.
bool keeps_rev(journal::EventType type) {
  using journal::EventType;
  return type == EventType::message_appended || type == EventType::run_started || type == EventType::run_aborting ||
         type == EventType::run_finished || type == EventType::run_progress || type == EventType::step_started;
}

// Returns whether the entry already contains the event.
bool already_there(const Session& session, const Change& event, const json::Edit& edit) {
  if (session.rev > event.envelope.seq) return true;  // the entry is newer
  if (!keeps_rev(event.envelope.type) && session.rev != 0) return session.rev >= event.envelope.seq;
  if (const auto* said = event.as<MessageAppended>())
    if (const auto updated_at = said->counted.number(Counter::updated_at)) return session.updated_at > *updated_at;
  for (const auto& member : edit.set) {
    if (member.name == "updatedAt") return session.updated_at > json::as_int(member.value).value_or(0);
  }
  return session.updated_at > event.envelope.time;
}

void create(AgentState& state, const journal::Event& event, Replay replay) {
  const auto raw = json::find(event.data, "entry").value_or("{}");
  const Session* old = state.find_key(event.envelope.key);
  if (replay == Replay::yes && old != nullptr && old->key() == event.envelope.key &&
      (old->rev >= event.envelope.seq || (old->rev == 0 && old->updated_at >= event.envelope.time))) {
    return;
  }
  json::Edit rev;
  rev.put_int("rev", static_cast<std::int64_t>(event.envelope.seq));
  Session& session = state.insert(event.envelope.key, std::make_shared<const std::string>(json::apply(raw, rev)));
  session.last_seq = event.envelope.seq;
  mark_dirty(state, event, session.key());
  if (!json::find(event.data, "archivedAs")) return;  // it is not restored
  state.archives.remove(event.envelope.session_id, ending_of(archives_in(event)));
  state.transcripts.forget(AgentState::file_of(session, {}));
}

// A session's transcripts were renamed. New files may get the old names. `stay`: they were not, and the id still has
// its topics.
void forget_files(AgentState& state, const Session& session, bool stay = false) {
  state.transcripts.forget(AgentState::file_of(session, {}));
  if (const auto* topics = state.transcripts.topics(session.session_id)) {
    for (const std::string& topic : *topics) state.transcripts.forget(AgentState::file_of(session, topic));
  }
  if (!stay) state.transcripts.forget_topics(session.session_id);
}

// The files beside the transcripts of a purged session are removed.
void forget_files_beside(AgentState& state, const Session& session) {
  state.transcripts.forget(store::log_file(session.session_id));
  state.transcripts.forget(store::changes_file(session.session_id, ""));
  if (const auto* topics = state.transcripts.topics(session.session_id))
    for (const std::string& topic : *topics) state.transcripts.forget(store::changes_file(session.session_id, topic));
}

// Transcripts without a session were renamed.
void forget_orphan(AgentState& state, const std::string& session_id) {
  state.transcripts.forget(store::transcript_file(session_id, ""));
  if (const auto* topics = state.transcripts.topics(session_id)) {
    for (const std::string& topic : *topics) state.transcripts.forget(store::transcript_file(session_id, topic));
  }
  state.transcripts.forget_topics(session_id);
}

void remove(AgentState& state, const journal::Event& event, Replay replay) {
  Session* session = state.mutable_session(event.envelope.key);
  if (session == nullptr) {
    if (json::string_at(event.data, "reason") == "orphan") forget_orphan(state, event.envelope.session_id);
    return;
  }
  const bool newer = session->rev != 0 ? session->rev > event.envelope.seq : session->updated_at > event.envelope.time;
  if (replay == Replay::yes && newer) return;
  mark_dirty(state, event, session->key());
  if (json::find(event.data, "purged") == "true") forget_files_beside(state, *session);
  forget_files(state, *session);
  state.erase(*session);
}

void change(AgentState& state, const Change& event, Replay replay, Session* edited) {
  Session* session = state.mutable_session(event.envelope.key);
  if (session == nullptr) return;  // deleted meanwhile
  if (edited != nullptr) {
    assert(edited->rev == event.envelope.seq);
    state.replace(*session, std::move(*edited));
    session->last_seq = event.envelope.seq;
    return mark_dirty(state, event, session->key());
  }
  json::Edit held;
  const json::Edit& edit = edit_of(event, held);
  if (replay == Replay::yes && already_there(*session, event, edit)) return;
  const auto* said = event.as<MessageAppended>();
  const bool counts = said != nullptr && !said->counted.empty();
  if (edit.empty() && !counts) return;
  if (counts) state.count(*session, said->counted);
  // An event that names the rev itself gives no new one.
  const auto is_rev = [](const json::Edit::Set& member) { return member.name == "rev"; };
  if (keeps_rev(event.envelope.type) || std::ranges::any_of(edit.set, is_rev)) {
    if (!edit.empty()) state.edit(*session, edit);
  } else {
    json::Edit with_rev = edit;
    with_rev.put_int("rev", static_cast<std::int64_t>(event.envelope.seq));
    state.edit(*session, with_rev);
  }
  session->last_seq = event.envelope.seq;
  mark_dirty(state, event, session->key());
}

}  // namespace

void apply(AgentState& state, TranscriptUpdate update) {
  TranscriptEnd& end = state.transcripts.find_or_add(update.file);
  end = std::move(update.end);
  if (!end.ids) return;
  for (const std::uint32_t hash : update.ids) end.ids->insert(hash);
}

void apply_to_archives(AgentState& state, const journal::Event& event) {
  if (auto record = archive_record(event)) state.archives.add(std::move(*record));
  if (event.envelope.type == journal::EventType::archive_destroyed)
    state.archives.forget_files(event.envelope.session_id, ending_of(archives_in(event)));
}

void apply(AgentState& state, const Change& event, Replay replay, Session* edited) {
  state.last_seq = event.envelope.seq;
  apply_to_archives(state, event);
  state.runs.apply(event);
  state.deliveries.apply(event);
  state.last_used.apply(event);
  state.policies.apply(event);
  state.early.apply(event);
  switch (event.envelope.type) {
    case journal::EventType::session_created:
      return create(state, event, replay);
    case journal::EventType::session_deleted:
      return remove(state, event, replay);
    case journal::EventType::session_reset:
      if (const Session* session = state.mutable_session(event.envelope.key);
          session != nullptr && session->session_id == json::string_at(event.data, "previousSessionId")) {
        forget_files(state, *session, json::string_at(event.data, "reason") == "external");
      }
      return change(state, event, replay, edited);
    case journal::EventType::context_cleared:
      if (const Session* session = state.mutable_session(event.envelope.key)) forget_files(state, *session);
      return change(state, event, replay, edited);
    case journal::EventType::topic_created:
      if (const Session* session = state.find_key(event.envelope.key);
          session != nullptr && json::find(event.data, "restored"))
        state.transcripts.forget(AgentState::file_of(*session, event.envelope.topic));
      return state.transcripts.add_topic(event.envelope.session_id, event.envelope.topic.value_or(""));
    case journal::EventType::topic_deleted:
      state.transcripts.remove_topic(event.envelope.session_id, event.envelope.topic.value_or(""));
      if (const Session* session = state.find_key(event.envelope.key)) {
        state.transcripts.forget(AgentState::file_of(*session, event.envelope.topic));
      }
      return change(state, event, replay, edited);
    case journal::EventType::message_edited:
    case journal::EventType::message_deleted:
      state.last_taken_back = event.envelope.seq;
      return;
    case journal::EventType::session_updated:
    case journal::EventType::session_archived:
    case journal::EventType::session_unarchived:
    case journal::EventType::message_appended:
    case journal::EventType::run_started:
    case journal::EventType::run_aborting:
    case journal::EventType::run_finished:
    case journal::EventType::run_progress:
    case journal::EventType::step_started:
    case journal::EventType::approval_resolved:
      return change(state, event, replay, edited);
    default:
      return;  // these events change no entry
  }
}

}  // namespace sessiond::decide
