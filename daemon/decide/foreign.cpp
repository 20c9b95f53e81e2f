#include "daemon/decide/foreign.hpp"

#include <algorithm>

#include "daemon/decide/archive_records.hpp"
#include "daemon/decide/needs.hpp"
#include "daemon/decide/run_steps.hpp"
#include "daemon/decide/steps.hpp"
#include "policy/usage.hpp"
#include "store/json/raw_json.hpp"
#include "store/names.hpp"
#include "transcripts/counts.hpp"
#include "transcripts/entry.hpp"

namespace sessiond::decide {
namespace {

// Chooses createdAt if the foreign program gave no time of creation: otherwise it would follow updatedAt.
void create(DecisionBuilder& builder, const std::string& key, const sessions::RawEntry& entry) {
  const std::int64_t given = Session(key, entry).created_at;
  json::Edit chosen;
  if (!json::find(*entry, "createdAt") && !json::find(*entry, "sessionStartedAt"))
    chosen.put_int("createdAt", given != 0 ? given : builder.context().now);
  if (const auto* kept = policy_of(builder, key)) keep_policy(*kept, *entry, chosen);
  std::string made = json::apply(*entry, chosen);
  json::escape_line_ends(made);
  json::ObjectWriter data;
  data.raw("entry", made);
  data.string("reason", "external");
  builder.emit(journal::EventType::session_created, Session(key, entry), data.text());
}

// Returns whether the session's history names this id.
bool had_before(const Session& session, std::string_view id) {
  const auto list = json::elements(json::find(*session.entry(), "previousSessions").value_or("[]"));
  return std::ranges::any_of(list, [id](std::string_view one) { return json::string_at(one, "sessionId") == id; });
}

// Begins the members anew that only the daemon keeps about a conversation. Another program that resets a session copies
// them as they were.
void begin_anew(const DecisionBuilder& builder, const Session& ours, std::string_view id, json::Edit& edit) {
  const auto is_theirs = [&edit](std::string_view name) {
    return std::ranges::find(edit.set, name, &json::Edit::Set::name) != edit.set.end() ||
           std::ranges::find(edit.unset, name) != edit.unset.end();
  };
  const auto had = [&ours](std::string_view name) { return json::find(*ours.entry(), name).has_value(); };
  if (ours.message_count && !is_theirs("messageCount") && !is_theirs("entryCount")) {
    if (had_before(ours, id)) {  // it has messages: they are counted with the next one
      edit.remove("messageCount");
      edit.remove("entryCount");
    } else {
      put_counts(edit, {});
    }
  }
  for (const char* name : {"firstMessage", "firstMessageId", "usageTotals", "costMicrocents", "runCount", "turnCount",
                           "allowedTools", "needs"})
    if (had(name) && !is_theirs(name)) edit.remove(name);
  if (is_theirs("previousSessions")) return;
  edit.put("previousSessions",
           longer_history(*ours.entry(),
                          {.time = builder.context().now, .session_id = ours.session_id, .reason = "external"}));
}

// Returns the id that a session has behind an edit.
std::string id_behind(const Session& session, const json::Edit& edit) {
  Session after = session;
  after.edit(edit);
  return after.session_id;
}

// A new session id means that the foreign program reset the session. Readers of the transcript must learn that. Its
// transcript stays where it is, under the name that it has.
void update(DecisionBuilder& builder, const Session& ours, json::Edit edit) {
  Session session = ours;
  if (const auto* kept = policy_of(builder, ours.key())) keep_policy(*kept, json::apply(*ours.entry(), edit), edit);
  if (edit.empty()) return;
  for (json::Edit::Set& member : edit.set) json::escape_line_ends(member.value);
  const std::string id = id_behind(ours, edit);
  if (id == ours.session_id) return builder.update(session, edit);
  drop_runs(builder, session, "another program has reset the session");
  begin_anew(builder, ours, id, edit);
  builder.update(session, edit, journal::EventType::session_reset,
                 "\"previousSessionId\":" + json::quote(ours.session_id) + R"(,"archivedAs":[],"reason":"external")");
}

void tell_resync(DecisionBuilder& builder, std::string_view keys) {
  json::ObjectWriter data;
  data.raw("changed", keys);
  data.boolean("resync", true);
  builder.emit({.type = journal::EventType::store_external_change}, data.text());
}

// Returns our session. At a load it may be gone from the store: then it is made of what its active run says.
Session known_session(const AgentState& state, const std::string& key) {
  const Session* ours = state.find_key(key);
  if (ours != nullptr && ours->key() == key) return *ours;
  json::Edit entry;
  put_counts(entry, {});  // nothing is appended to a session without counts before they are known
  if (const SessionRuns* runs = state.runs.find(key); runs != nullptr && runs->active)
    entry.put_string("sessionId", runs->active->session_id);
  return {key, std::make_shared<const std::string>(json::apply("{}", entry))};
}

}  // namespace

void note_lost_sessions(const AgentState& state, std::optional<sessions::ForeignChange>& change) {
  std::set<std::string> lost;
  const auto look = [&](const std::string& key) {
    if (state.find_key(key) == nullptr) lost.insert(key);
  };
  std::ranges::for_each(state.runs.active(), look);
  for (const auto& [since, key] : state.runs.waiting()) look(key);
  std::ranges::for_each(state.runs.taken_over(), look);
  if (change) {
    for (const std::string& key : change->deleted) lost.erase(key);
    for (const sessions::NamedEntry& entry : change->created) lost.erase(entry.key);  // it is taken in with the change
  }
  if (lost.empty()) return;
  if (!change) change.emplace();
  change->deleted.insert(change->deleted.end(), lost.begin(), lost.end());
}

std::vector<LeftRun> runs_left_behind(const AgentState& state, const sessions::ForeignChange& change) {
  std::vector<LeftRun> left;
  const auto note = [&](const std::string& key, const auto& leaves) {
    const SessionRuns* runs = state.runs.find(key);
    if (runs == nullptr || !runs->active) return;
    const Session ours = known_session(state, key);
    if (leaves(ours)) left.push_back({.key = key, .file = AgentState::file_of(ours, runs->active->topic)});
  };
  // As decide_foreign_change merges it: an entry of before our own reset, written back, resets nothing.
  const auto note_reset = [&](const std::string& key, std::string_view base, std::string_view theirs) {
    note(key, [&](const Session& ours) {
      return id_behind(ours, sessions::merge_entry(base, *ours.entry(), theirs)) != ours.session_id;
    });
  };
  for (const sessions::NamedEntry& entry : change.created)
    if (entry.entry && json::kind(*entry.entry) == json::Kind::object) note_reset(entry.key, "{}", *entry.entry);
  for (const auto& entry : change.updated) note_reset(entry.key, *entry.base, *entry.theirs);
  for (const std::string& key : change.deleted)
    note(key, [&](const Session&) { return !state.changed_by_us.contains(key); });
  return left;
}

Result<Decision> decide_left_behind(const AgentState& state, const LeftRun& run, const Context& context) {
  DecisionBuilder builder(state, context);
  Session session = known_session(state, run.key);
  const TranscriptEnd* end = state.transcripts.find(run.file);
  if (end == nullptr) {
    builder.out.need = Need{Need::What::transcript_end, run.file, {}, state.order_of(session, run.file)};
  } else if (end->size != 0) {  // else the other program has taken it along
    TRY(end_all(builder, session, "another program has given the session another transcript"));
  }
  return std::move(builder.out);
}

Decision decide_foreign_change(const AgentState& state, const sessions::ForeignChange& change, const Context& context,
                               bool at_load) {
  DecisionBuilder builder(state, context);
  std::string keys = "[";
  const auto name = [&keys](const std::string& key) {
    if (keys.size() > 1) keys += ',';
    json::append_quoted(keys, key);
  };
  for (const sessions::NamedEntry& entry : change.created) {
    if (!entry.entry || json::kind(*entry.entry) != json::Kind::object) continue;
    const Session* ours = state.find_key(entry.key);
    if (ours == nullptr || ours->key() != entry.key) {
      create(builder, entry.key, entry.entry);
    } else {
      update(builder, *ours, sessions::merge_entry("{}", *ours->entry(), *entry.entry));
    }
    name(entry.key);
  }
  for (const auto& entry : change.updated) {
    const Session* ours = state.find_key(entry.key);
    if (ours == nullptr || ours->key() != entry.key) continue;  // we deleted it after they had read it
    update(builder, *ours, sessions::merge_entry(*entry.base, *ours->entry(), *entry.theirs));
    name(entry.key);
  }
  for (const std::string& key : change.deleted) {
    const Session* ours = state.find_key(key);
    if (state.changed_by_us.contains(key) || (ours == nullptr && !at_load) || (ours != nullptr && ours->key() != key))
      continue;
    Session gone = known_session(state, key);
    drop_runs(builder, gone, "another program has deleted the session");
    builder.emit(journal::EventType::session_deleted, gone, R"({"archivedAs":[],"purged":false})");
    name(key);
  }
  if (!builder.out.events.empty()) tell_resync(builder, keys + "]");
  return std::move(builder.out);
}

sessions::ForeignChange ForeignSlices::next() {
  constexpr std::size_t most = 256;
  sessions::ForeignChange slice;
  std::size_t before = 0;  // entries of the change before the list that `take` looks at
  const auto take = [&](auto& from, auto& into) {
    for (; at_ < before + from.size() && slice.created.size() + slice.updated.size() + slice.deleted.size() < most;
         ++at_)
      into.push_back(std::move(from[at_ - before]));
    before += from.size();
  };
  take(change_.created, slice.created);
  take(change_.updated, slice.updated);
  take(change_.deleted, slice.deleted);
  return slice;
}

OwnVersions::OwnVersions(const std::optional<sessions::ForeignChange>& change) {
  if (!change) return;
  const auto want = [this](const std::string& key, const sessions::RawEntry& theirs) {
    if (const auto rev = json::int_at(*theirs, "rev"))
      wanted_[key] = {static_cast<std::uint64_t>(*rev), json::int_at(*theirs, "updatedAt").value_or(0)};
  };
  for (const sessions::NamedEntry& entry : change->created) {
    if (entry.entry && json::kind(*entry.entry) == json::Kind::object) want(entry.key, entry.entry);
  }
  for (const auto& entry : change->updated) want(entry.key, entry.theirs);
}

void OwnVersions::applied(const AgentState& state, const journal::Event& event) {
  if (event.envelope.type == journal::EventType::session_deleted) deleted_.insert(event.envelope.key);
  const auto found = wanted_.find(event.envelope.key);
  if (found == wanted_.end()) return;
  const auto& [key, wanted] = *found;
  const Session* session = state.find_key(key);
  if (session == nullptr || session->key() != key || session->rev != wanted.rev) return;
  // Messages change an entry without a new rev.
  const bool moved_on = versions_.contains(key) && session->updated_at <= wanted.updated_at;
  if (event.envelope.seq == wanted.rev || moved_on) versions_[key] = session->entry();
}

void OwnVersions::remove_own(std::optional<sessions::ForeignChange>& change) const {
  if (!change) return;
  const auto version = [this](const std::string& key) {
    const auto found = versions_.find(key);
    return found == versions_.end() ? sessions::RawEntry{} : found->second;
  };
  std::vector<sessions::ForeignChange::Changed> updated;
  for (auto& entry : change->updated) {
    if (sessions::RawEntry ours = version(entry.key)) entry.base = std::move(ours);
    updated.push_back(std::move(entry));
  }
  std::erase_if(change->created, [&](const sessions::NamedEntry& entry) {
    sessions::RawEntry ours = version(entry.key);
    if (ours) updated.push_back({.key = entry.key, .edit = {}, .base = std::move(ours), .theirs = entry.entry});
    return versions_.contains(entry.key);
  });
  std::erase_if(updated, [](const auto& entry) { return json::same(*entry.base, *entry.theirs); });
  change->updated = std::move(updated);
  std::erase_if(change->deleted, [this](const std::string& key) { return deleted_.contains(key); });
  if (change->empty()) change.reset();
}

Decision decide_foreign_lines(const AgentState& state, const AgentState::Owner& owner, const ForeignLines& theirs,
                              const Context& context) {
  DecisionBuilder builder(state, context);
  const Session& session = *owner.session;
  const std::uint64_t first_seq = builder.next_seq();
  if (theirs.lines.empty()) tell_resync(builder, "[" + json::quote(session.key()) + "]");
  const auto* topics = state.transcripts.topics(session.session_id);
  if (!theirs.lines.empty() && owner.topic && (topics == nullptr || !topics->contains(*owner.topic)))
    builder.emit(journal::EventType::topic_created, session, "{}", owner.topic);
  std::int64_t updated = session.updated_at;
  std::int64_t interacted = session.last_interaction_at.value_or(0);
  std::optional<std::int64_t> messages = session.message_count;
  std::optional<std::int64_t> entries = session.entry_count;
  std::string needs = session.needs;
  for (const transcripts::WholeLine& line : theirs.lines) {
    // Compacted, because whitespace in the line could break the event's line.
    std::string message = json::compact(
        transcripts::view_entry(line.stored.line, line.stored.seq, transcripts::View::full).value_or("{}"));
    json::escape_line_ends(message);
    const std::int64_t time = std::min(json::int_at(message, "timestamp").value_or(context.now), context.now);
    CountedEdit edit;
    edit.counted.set(Counter::updated_at, updated = std::max(updated, time));
    if (json::string_at(message, "role") == "user")
      edit.counted.set(Counter::last_interaction_at, interacted = std::max(interacted, time));
    if (!owner.topic || !store::is_stream_topic(*owner.topic)) {
      // Without entryCount both are put right behind the lines.
      if (!entries) {
        messages = policy::add_counted(messages.value_or(static_cast<std::int64_t>(line.stored.seq)), 1);
      } else {
        messages = policy::add_counted(messages.value_or(0), transcripts::is_message(line.stored.line) ? 1 : 0);
        edit.counted.set(Counter::entry_count, *(entries = policy::add_counted(*entries, 1)));
      }
      edit.counted.set(Counter::message_count, *messages);
    }
    const bool answers = !needs.empty() && transcripts::is_answer(message);
    if (answers) needs = without_need(needs, owner.topic);
    if (answers && !needs.empty()) edit.rest.put("needs", needs);
    if (answers && needs.empty()) edit.rest.remove("needs");
    builder.emit(journal::EventType::message_appended, session,
                 MessageAppended{.counted = edit.counted, .message = std::move(message)}, owner.topic,
                 std::move(edit.rest));
  }
  const bool whole = theirs.lines.empty();
  builder.out.line_positions.push_back({.file = theirs.file,
                                        .agent = state.id(),
                                        .at = whole ? std::nullopt : std::optional(theirs.begin),
                                        .seq = first_seq,
                                        .length = whole ? theirs.size : theirs.lines.back().end - theirs.begin,
                                        .inode = theirs.inode});
  return std::move(builder.out);
}

Decision decide_renumbered(const AgentState& state, const AgentState::Owner& owner, std::uint64_t from,
                           const Context& context) {
  DecisionBuilder builder(state, context);
  json::ObjectWriter data;
  data.string_or_null("topic", owner.topic);
  data.integer("from", static_cast<std::int64_t>(from));
  builder.emit(journal::EventType::transcript_renumbered, *owner.session, data.text(), owner.topic);
  return std::move(builder.out);
}

}  // namespace sessiond::decide
