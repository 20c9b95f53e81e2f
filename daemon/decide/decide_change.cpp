// The decision about what people did to a message later (transcripts/changes.hpp).
#include <fmt/format.h>

#include <algorithm>

#include "daemon/decide/run_steps.hpp"
#include "daemon/decide/steps.hpp"
#include "store/try.hpp"

namespace sessiond::decide {
namespace {

std::unexpected<Problem> no_such_message() {
  return fail(Code::message_not_found, "no message with this messageId is known in this conversation");
}

// Tells whether the transcript of the target is there: the session's, or an archive that was not destroyed.
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
  return there || *place.topic == session.topic_of_key() ? place.topic : std::nullopt;
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

std::string data_of(const ChangeMessage& command) {
  json::ObjectWriter target;
  target.string("sessionId", command.place.session_id);
  target.integer("seq", static_cast<std::int64_t>(command.place.seq));
  target.string("id", command.place.entry_id);
  if (command.place.topic) target.string("topic", *command.place.topic);
  json::ObjectWriter data;
  data.raw("target", target.text());
  if (command.text) data.string("text", *command.text);
  if (!command.content.empty()) data.raw("content", json::compact(command.content));
  if (!command.emoji.empty()) data.string("emoji", command.emoji);
  if (!command.from.id.empty()) data.raw("from", command.from.json);
  if (command.removed) data.boolean("removed", true);
  return data.text();
}

}  // namespace

Result<Decision> decide(const AgentState& state, const ChangeMessage& command, const Context& context,
                        const FetchedLines& lines) {
  DecisionBuilder builder(state, context);
  const auto there = resolve_open(state, command.target);
  if (!there && there.error().code == Code::session_not_found) return no_such_message();
  TRY(const Session* found, there);
  Session session = *found;
  const MessagePlace& place = command.place;
  if (!is_there(state, session, place)) return no_such_message();
  const std::string data = data_of(command);
  AppendRequest append{.topic = topic_for(state, session, place)};
  append.entries.push_back(
      {.type = "custom", .body = fmt::format(R"("customType":"{}","data":{})", custom_type(command.what), data)});
  TRY(const auto appended, append_entries(builder, session, append, lines, false));
  if (builder.out.need) return std::move(builder.out);
  builder.emit(event_type(command.what), session, data, append.topic);
  if (command.what == ChangeMessage::What::remove && place.session_id == session.session_id)
    take_off_queue(builder, session, {place.entry_id},
                   run_error("input_deleted", "the messages that it was to answer were deleted"));
  json::ObjectWriter answer(builder.out.body);
  answer.string("sessionKey", session.key());
  answer.integer("seq", static_cast<std::int64_t>(appended.last_seq));
  answer.raw("target", fmt::format(R"({{"sessionId":{},"seq":{}}})", json::quote(place.session_id), place.seq));
  answer.string("asOf", builder.as_of());
  answer.close();
  builder.out.status = 201;
  return std::move(builder.out);
}

}  // namespace sessiond::decide
