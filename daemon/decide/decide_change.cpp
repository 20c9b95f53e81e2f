// The decision about what people did to a message later (transcripts/changes.hpp).
#include <fmt/format.h>

#include <algorithm>
#include <ranges>

#include "daemon/decide/change_steps.hpp"
#include "daemon/decide/inbound_run.hpp"
#include "daemon/decide/needs.hpp"
#include "daemon/decide/steps.hpp"
#include "daemon/decide/takeover_steps.hpp"
#include "policy/activation.hpp"
#include "policy/context/entry.hpp"
#include "store/delivery/delivery.hpp"
#include "store/names.hpp"
#include "store/try.hpp"
#include "transcripts/origins.hpp"

namespace sessiond::decide {
namespace {

std::unexpected<Problem> no_such_message() {
  return fail(Code::message_not_found, "no message with this messageId is known in this conversation");
}

// Returns whether the transcript of the target is there: the session's, or an archive that was not destroyed.
bool is_there(const AgentState& state, const Session& session, const MessagePlace& place) {
  if (place.session_id == session.session_id) return true;
  return std::ranges::any_of(state.archives.of_id(place.session_id),
                             [](const ArchiveRecord* record) { return !record->purged; });
}

// The topic whose transcript takes the entry: the target's, if its transcript is the current one.
std::optional<std::string> topic_for(const AgentState& state, const Session& session, const MessagePlace& place) {
  if (!place.topic || place.session_id != session.session_id) return {};
  const auto* topics = state.transcripts.topics(session.session_id);
  const bool there = topics != nullptr && topics->contains(*place.topic);
  return there || *place.topic == session.own_topic() ? place.topic : std::nullopt;
}

std::string_view custom_type(ChangeMessage::What what) {
  switch (what) {
    case ChangeMessage::What::edit:
      return "sessiond.edit";
    case ChangeMessage::What::remove:
      return "sessiond.delete";
    case ChangeMessage::What::react:
      break;
  }
  return "sessiond.reaction";
}

journal::EventType event_type(ChangeMessage::What what) {
  switch (what) {
    case ChangeMessage::What::edit:
      return journal::EventType::message_edited;
    case ChangeMessage::What::remove:
      return journal::EventType::message_deleted;
    case ChangeMessage::What::react:
      break;
  }
  return journal::EventType::message_reacted;
}

std::string target_json(const MessagePlace& place) {
  json::ObjectWriter target;
  target.string("sessionId", place.session_id);
  target.integer("seq", static_cast<std::int64_t>(place.seq));
  target.string("id", place.entry_id);
  if (place.topic) target.string("topic", *place.topic);
  return target.text();
}

// Names the place as its transcript is named: the topic of a key is that of the session's own transcript.
MessagePlace named_place(const Session& session, MessagePlace place) {
  if (place.topic == session.own_topic()) place.topic.reset();
  return place;
}

std::string data_of(const ChangeMessage& command, const MessagePlace& place) {
  json::ObjectWriter data;
  data.raw("target", target_json(place));
  if (command.text) data.string("text", *command.text);
  if (!command.content.empty()) data.raw("content", command.content);
  if (!command.emoji.empty()) data.string("emoji", command.emoji);
  if (!command.from.id.empty()) data.raw("from", command.from.json);
  if (command.removed) data.boolean("removed", true);
  return data.text();
}

// The file of the transcript that has a message. Nothing: its name is not known.
std::optional<std::string> file_with(const AgentState& state, const Session& session, const MessagePlace& place) {
  if (place.session_id == session.session_id) return AgentState::file_of(session, place.topic);
  const auto records = state.archives.of_id(place.session_id);
  for (const ArchiveRecord* record : records | std::views::reverse) {
    if (record->purged) continue;
    for (const std::string& name : record->archived_as) {
      if (topic_of(*record, name) == place.topic) return name;
    }
  }
  return {};
}

// The message as people left it so far, raw JSON; {} if its transcript is not known. May set builder.out.need.
std::string_view shown_message(DecisionBuilder& builder, const Session& session, const MessagePlace& place,
                               const FetchedLines& lines) {
  const auto shown = lines.find(shown_name(place.entry_id));
  if (shown != lines.end()) return json::find(shown->second.line, "message").value_or("{}");
  if (const auto file = file_with(builder.state(), session, place))
    builder.out.need = Need{.what = Need::What::shown,
                            .file = *file,
                            .ids = {place.entry_id},
                            .name = transcripts::transcript_name(place.session_id, place.topic)};
  return "{}";
}

// Returns whether a message says already what an edit says.
bool says_already(const ChangeMessage& command, std::string_view message) {
  const auto content = json::find(message, "content");
  if (!content) return false;
  return command.text ? transcripts::text_of(*content) == *command.text : json::same(*content, command.content);
}

bool has_attachments(std::string_view message) {
  for (const char* name : {"attachments", "mediaUrls"})
    if (const auto list = json::find(message, name); list && json::kind(*list) == json::Kind::array && *list != "[]")
      return true;
  return context::files_in(message) > 0;
}

// A message of a person that addressed nobody, and whose text addresses the agent now, activates. Only while it stands
// in the session's transcript, and nobody deleted it.
Result<std::optional<LateActivation>> activate_edited(DecisionBuilder& builder, Session& session,
                                                      const ChangeMessage& command, const MessagePlace& place,
                                                      std::string_view message) {
  const std::string* told = builder.context().told_before;
  if (!command.mentioned || told == nullptr || place.session_id != session.session_id) return std::nullopt;
  const json::Index said(message);
  if (!said.find("role") || said.find("deleted") == "true" || said.find("fromMe") == "true") return std::nullopt;
  const sessions::RawEntry held = session.entry_with_old_counters();
  const json::Index entry(*held);
  if (!policy::activates({.group_activation = entry.find("groupActivation"),
                          .chat_type = entry.string_at("chatType").value_or(""),
                          .mentioned = true}))
    return std::nullopt;
  const std::string text = command.text ? *command.text : transcripts::text_of(command.content);
  // The request names no thread: it is that of the session, if this is the conversation that the session had last.
  const delivery::Delivery last = delivery::read_delivery(entry);
  const bool is_last = last.channel.value_or("") == command.channel && last.to.value_or("") == command.peer;
  const std::string thread = is_last ? last.thread_id.value_or("") : "";
  TRY(auto activation,
      activate_late(builder, session,
                    {.place = place,
                     .text = text,
                     .reply_to = reply_address(command.channel, command.peer, command.account_id, thread)}));
  builder.out.told_again = told_after(activation, *told);
  return activation;
}

// A message that was handed to the active run, and that an edit made too long for that, waits for the next run.
void keep_steered_small(DecisionBuilder& builder, Session& session, const std::string& id, const std::string& text) {
  const SessionRuns* runs = builder.state().runs.find(session.key());
  if (runs == nullptr || !runs->active) return;
  std::size_t bytes = text.size();
  bool is_steered = false;
  for (const Steered& each : runs->steered) {
    is_steered = is_steered || each.entry_id == id;
    if (each.entry_id != id) bytes += each.text.size();
  }
  if (!is_steered || bytes <= most_steered_bytes) return;
  builder.emit(journal::EventType::run_progress, session, RunProgress{.run_id = runs->active->id, .steered = {id}},
               runs->active->topic);
  const bool waits = std::ranges::any_of(
      runs->queued, [&id](const Run& run) { return std::ranges::find(run.input, id) != run.input.end(); });
  if (!waits)
    emit_run(builder, session, journal::EventType::run_queued,
             {.run = leftover_of(builder, *runs->active, {{id, text}})});
}

// Lists the inputs of a topic's runs, without the message itself: they wait for an answer, too.
std::vector<std::string> others_that_wait(const SessionRuns* runs, const MessagePlace& place) {
  constexpr std::size_t most = 100;
  std::vector<std::string> ids;
  if (runs == nullptr) return ids;
  const auto add = [&](const std::string& id) {
    if (id != place.entry_id && ids.size() < most) ids.push_back(id);
  };
  if (runs->active && runs->active->topic == place.topic) {
    for (const std::string& id : runs->active->input)
      if (std::ranges::find(runs->active->deleted, id) == runs->active->deleted.end()) add(id);
    for (const Steered& each : runs->steered) add(each.entry_id);
  }
  for (const Run& run : runs->queued)
    if (run.topic == place.topic) std::ranges::for_each(run.input, add);
  if (runs->takeover)
    for (const HeldMessage& held : runs->takeover->waiting)
      if (held.topic == place.topic) add(held.entry_id);
  return ids;
}

// Finds the first message after a deleted one that waits for an answer, as far as runs know. Nothing: none is known.
// Sets builder.out.need if a line is to be fetched.
std::optional<NeedsChange> next_need(DecisionBuilder& builder, const Session& session, const MessagePlace& place,
                                     const FetchedLines& lines) {
  NeedsChange change{.topic = place.topic, .deleted = place.seq};
  if (session.needs.empty() || place.session_id != session.session_id) return {};
  if (after_deletion(session.needs, change, 0) == session.needs) return {};
  std::vector<std::string> unknown;
  for (const std::string& id : others_that_wait(builder.state().runs.find(session.key()), place)) {
    const auto line = lines.find(id);
    if (line == lines.end()) {
      unknown.push_back(id);
    } else if (!line->second.line.empty() && line->second.seq > place.seq &&
               !transcripts::is_hint(json::find(line->second.line, "message").value_or("{}")) &&
               (!change.next || line->second.seq < *change.next)) {
      change.next = line->second.seq;
    }
  }
  if (!unknown.empty())
    builder.out.need = Need{Need::What::lines, AgentState::file_of(session, place.topic), std::move(unknown)};
  return change;
}

// Takes the beginning of the conversation from the entries of the session and of its copies, where its message is
// edited or deleted: what people took back is shown nowhere. An old entry does not name the message: then it may be
// any.
void forget_first(DecisionBuilder& builder, Session& session, const MessagePlace& place) {
  json::Edit edit;
  edit.remove("firstMessage");
  edit.remove("firstMessageId");
  const auto begins = [&place](const Session& one) {
    return one.has_first_message &&
           json::string_at(*one.entry_with_old_counters(), "firstMessageId").value_or(place.entry_id) == place.entry_id;
  };
  for (const Session* one : builder.state().copies(place.session_id)) {
    if (!begins(*one) || one->key() == session.key()) continue;
    Session copy = *one;
    builder.update(copy, edit);
  }
  if (begins(session)) builder.update(session, edit);
}

// An edit or a deletion changes how full the window is, in each transcript that has the message.
void note_outdated(DecisionBuilder& builder, const Session& session, const MessagePlace& place,
                   const std::optional<std::string>& topic) {
  const std::string file = AgentState::file_of(session, topic);
  for (TranscriptUpdate& update : builder.out.transcript_updates)
    if (update.file == file) update.end.meter.reset();
  for (const Session* copy : builder.state().copies(place.session_id))
    builder.out.outdated.push_back(AgentState::file_of(*copy, place.topic));
}

// Appends what was done to a message, and tells of it. `topic`: whose transcript takes the entry. `fresh`: as for
// append_entries.
Result<AppendResult> change(DecisionBuilder& builder, Session& session, ChangeMessage::What what,
                            const MessagePlace& place, const std::optional<std::string>& topic, const std::string& data,
                            const FetchedLines& lines, bool fresh = false) {
  AppendRequest append{.topic = topic};
  append.entries.push_back(transcripts::custom_entry(custom_type(what), data));
  if (what == ChangeMessage::What::remove) append.needs = next_need(builder, session, place, lines);
  if (builder.out.need) return AppendResult{};
  if (what != ChangeMessage::What::react) forget_first(builder, session, place);
  const std::size_t before = builder.out.events.size();
  TRY(auto appended, append_entries(builder, session, append, lines, fresh));
  if (builder.out.need) return appended;
  take_counters(builder, session, before);
  if (what != ChangeMessage::What::react) note_outdated(builder, session, place, append.topic);
  builder.emit(event_type(what), session, data, append.topic);
  keep_change(builder, place.session_id, place.topic, custom_type(what), data, fresh);
  return appended;
}

// Deleted messages of the current transcript are in no queue any more.
void take_deleted_off_queue(DecisionBuilder& builder, Session& session, const std::vector<std::string>& ids) {
  take_off_queue(builder, session, ids, error_json("input_deleted", "the messages that it was to answer were deleted"));
}

// Stops the active run if it has no other input than these and deleted ones.
void stop_if_only(DecisionBuilder& builder, Session& session, const std::vector<std::string>& ids) {
  const SessionRuns* runs = builder.state().runs.find(session.key());
  if (runs == nullptr || !runs->active || runs->active->status != RunStatus::running) return;
  const auto is_in = [](const std::vector<std::string>& list, const std::string& id) {
    return std::ranges::find(list, id) != list.end();
  };
  const std::vector<std::string>& input = runs->active->input;
  if (std::ranges::none_of(input, [&](const std::string& id) { return is_in(ids, id); })) return;
  if (std::ranges::any_of(input,
                          [&](const std::string& id) { return !is_in(ids, id) && !is_in(runs->active->deleted, id); }))
    return;
  Run run = *runs->active;
  stop_run(builder, session, run, "it answers a message that the agent has sent");
}

// `seq`: of the entry that says what was done, or of the message if nothing was to be done.
void answer_change(DecisionBuilder& builder, const Session& session, const MessagePlace& place, std::uint64_t seq,
                   bool duplicate, const std::optional<LateActivation>& activation = {}) {
  json::ObjectWriter answer(builder.out.body);
  answer.string("sessionKey", session.key());
  answer.integer("seq", static_cast<std::int64_t>(seq));
  answer.raw("target", fmt::format(R"({{"sessionId":{},"seq":{}}})", json::quote(place.session_id), place.seq));
  if (duplicate) answer.boolean("duplicate", true);
  if (activation) {
    answer.boolean("activate", !activation->is_held);
    if (activation->is_held) answer.raw("held", held_by_takeover);
    answer.raw("systemIntro", activation->system_intro);
    answer.raw("run", activation->run);
  }
  answer.string("asOf", builder.as_of());
  answer.close();
  builder.out.status = duplicate ? 200 : 201;
}

}  // namespace

Result<void> remove_echoes(DecisionBuilder& builder, Session& session, const std::vector<MessagePlace>& places,
                           const FetchedLines& lines) {
  std::vector<std::string> current;  // ids
  for (const MessagePlace& place : places)
    if (place.session_id == session.session_id) current.push_back(place.entry_id);
  for (const MessagePlace& echo : places) {
    const MessagePlace place = named_place(session, echo);
    if (!is_there(builder.state(), session, place)) continue;
    json::ObjectWriter data;
    data.raw("target", target_json(place));
    data.boolean("own", true);
    const auto topic = topic_for(builder.state(), session, place);
    TRY(change(builder, session, ChangeMessage::What::remove, place, topic, data.text(), lines));
    if (builder.out.need) return {};
  }
  if (current.empty()) return {};
  take_deleted_off_queue(builder, session, current);
  stop_if_only(builder, session, current);
  return {};
}

Result<void> change_foretold(DecisionBuilder& builder, Session& session, const EarlyChange& early,
                             const MessagePlace& place, const std::optional<std::string>& topic,
                             const FetchedLines& lines, bool fresh) {
  const MessagePlace named = named_place(session, place);
  if (!is_there(builder.state(), session, named)) return {};
  const ChangeMessage command{.what = early.deletes ? ChangeMessage::What::remove : ChangeMessage::What::edit,
                              .text = early.text,
                              .content = json::compact(early.content)};  // an earlier version kept it as it came
  TRY(change(builder, session, command.what, named, topic, data_of(command, named), lines, fresh));
  return {};
}

Result<Decision> decide(const AgentState& state, const ChangeMessage& command, const Context& context,
                        const FetchedLines& lines) {
  DecisionBuilder builder(state, context);
  const auto there = resolve_open(state, command.target);
  if (!there && there.error().code == Code::session_not_found) return no_such_message();
  TRY(const Session* found, there);
  Session session = *found;
  const MessagePlace place = named_place(session, command.place);
  if (!is_there(state, session, place)) return no_such_message();
  const bool is_edit = command.what == ChangeMessage::What::edit;
  const bool takes_back = command.what != ChangeMessage::What::react;
  const std::string_view message = takes_back ? shown_message(builder, session, place, lines) : "{}";
  if (builder.out.need) return std::move(builder.out);
  if (!is_edit && json::find(message, "deleted") == "true") {
    answer_change(builder, session, place, place.seq, true);
    return std::move(builder.out);
  }
  if (is_edit && says_already(command, message)) {
    TRY(const auto activation, activate_edited(builder, session, command, place, message));
    if (builder.out.need) return std::move(builder.out);
    answer_change(builder, session, place, place.seq, true, activation);
    return std::move(builder.out);
  }
  if (is_edit && command.text && command.text->empty() && !has_attachments(message))
    return fail_at("/text", "is empty, and the message has no attachments that would stay");
  const std::string data = data_of(command, place);
  builder.about_channel = command.channel;
  const auto topic = topic_for(state, session, place);
  TRY(const auto appended, change(builder, session, command.what, place, topic, data, lines));
  builder.about_channel.clear();
  if (builder.out.need) return std::move(builder.out);
  if (command.what == ChangeMessage::What::remove && place.session_id == session.session_id)
    take_deleted_off_queue(builder, session, {place.entry_id});
  if (command.what == ChangeMessage::What::edit && place.session_id == session.session_id)
    keep_steered_small(builder, session, place.entry_id,
                       command.text ? *command.text : transcripts::text_of(command.content));
  TRY(const auto activation, activate_edited(builder, session, command, place, message));
  if (builder.out.need) return std::move(builder.out);
  answer_change(builder, session, place, appended.last_seq, false, activation);
  return std::move(builder.out);
}

}  // namespace sessiond::decide
