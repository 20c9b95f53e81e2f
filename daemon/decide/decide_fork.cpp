// Decisions about sessions that get a transcript which was written before: a fork, and a transcript that is replaced.
#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "daemon/decide/free_id.hpp"
#include "daemon/decide/message_channels.hpp"
#include "daemon/decide/naming.hpp"
#include "daemon/decide/sdk_session.hpp"
#include "daemon/decide/steps.hpp"
#include "daemon/decide/takeover_steps.hpp"
#include "policy/fork.hpp"
#include "policy/reset.hpp"
#include "store/names.hpp"
#include "store/try.hpp"

namespace sessiond::decide {
namespace {

// Checks that the key is free. A session that the requester does not see makes it as forbidden as in a create.
Result<void> check_free(const AgentState& state, const Context& context, const std::string& key) {
  const Session* there = state.find_key(key);
  if (there == nullptr) return {};
  if (!context.sight.whole_agent && !context.sight.sees(there->key(), there->audience()))
    return fail(Code::forbidden, "this token may not make the session " + key);
  return fail(Code::session_exists, fmt::format("{} is already there", there->key()));
}

// Counts what is copied. Leaves out the first message if any message was edited or deleted since: it may be that one.
void put_copied_sums(json::Edit& entry, transcripts::EntrySums sums, bool is_current, bool shared) {
  if (!is_current) sums.first_message.clear();
  put_sums(entry, sums, shared);
}

// Names at most most_copied_from sessions. The first ones have the beginning of the conversation.
void put_copied_from(json::Edit& entry, std::span<const std::string> session_ids) {
  if (session_ids.empty()) return;
  entry.put("copiedFrom", json::array_of(session_ids.first(std::min(session_ids.size(), most_copied_from))));
}

// Says that messages of a transcript were copied: what people did to them later is kept as long as a copy may be there.
void note_copied(DecisionBuilder& builder, const std::string& origin_id, const std::optional<std::string>& topic,
                 const std::string& copy_id) {
  json::ObjectWriter data;
  data.string("sessionId", copy_id);
  keep_change(builder, origin_id, topic, "sessiond.copied", data.text());
}

}  // namespace

Result<Decision> decide(const AgentState& state, const ForkSession& command, const Context& context) {
  DecisionBuilder builder(state, context);
  TRY(const Session* origin, resolve(state, command.target));
  if (origin->session_id != command.origin_id) return fail(Code::session_busy, "the session was reset; try again");
  TRY(const auto key, command.key.empty() ? Result<std::string>(key_of_id(state, command.session_id))
                                          : store::canonical_key(command.key, state.id()));
  TRY(check_free(state, context, key));
  const std::string_view own = store::parse_key(key).topic;
  for (const StagedFile& file : command.files)
    if (file.topic && *file.topic == own) return fail_at("/key", "names the topic that the message is in");
  json::Edit entry = policy::fork_edit(entry_before_takeover(state, *origin, *origin->entry()));
  for (const std::string& field : context.rules->require_fields) {
    const auto of_origin = json::find(*origin->entry(), field);
    const bool of_sdk = std::ranges::find(sdk_session_fields, field) != sdk_session_fields.end();
    if (of_origin && !of_sdk && value_of(entry, field) == nullptr) entry.put(field, std::string(*of_origin));
  }
  const std::vector<std::string> channels = channels_of(*origin);
  if (!channels.empty() && channels != std::vector{store::lower(store::parse_key(key).channel)})
    entry.put("channels", json::array_of(channels));
  put_copied_sums(entry, command.sums, command.taken_back == state.last_taken_back, context.rules->shared);
  json::ObjectWriter from;
  from.string("sessionId", command.origin_id);
  from.string_or_null("messageId", command.message_id.empty() ? std::nullopt : std::optional(command.message_id));
  entry.put("forkedFrom", from.text());
  put_copied_from(entry, command.copied_from);
  if (command.name) {
    entry.put_string("name", *command.name);
    TRY(check_name(*context.rules, entry, ""));
    TRY(policy::check_entry_edit({.set = {*std::ranges::find(entry.set, "name", &json::Edit::Set::name)}, .unset = {}},
                                 policy::Import::no, ""));
  }
  TRY(check_guarded_as(builder, key, *origin->entry()));
  take_staged(builder, key, command.session_id, command.files);
  TRY(auto session, create_session(builder, key, command.session_id, std::move(entry), "fork"));
  tell_staged(builder, session, command.files);
  json::ObjectWriter data;
  data.string("from", command.origin_id);
  data.string_or_null("messageId", command.message_id.empty() ? std::nullopt : std::optional(command.message_id));
  builder.emit(journal::EventType::session_forked, session, data.text());
  for (const StagedFile& file : command.files) {
    note_copied(builder, command.origin_id, file.topic, command.session_id);
    if (builder.out.need) return std::move(builder.out);
  }
  return answer_session(builder, session, 201);
}

Result<Decision> decide(const AgentState& state, const ReplaceTranscript& command, const Context& context) {
  DecisionBuilder builder(state, context);
  TRY(const auto there, resolve_open(state, command.target));
  Session session = *there;
  if (session.session_id != command.origin_id) return fail(Code::session_busy, "the session was reset; try again");
  const std::string own = AgentState::file_of(session, {});
  if (context.rests_on != nullptr) *context.rests_on = own;
  const TranscriptEnd* end = state.transcripts.find(own);
  if (end == nullptr) {
    builder.out.need = Need{Need::What::transcript_end, own};
    return std::move(builder.out);
  }
  if (command.expected_seq != end->count)
    return fail(Code::precondition_failed,
                fmt::format("expectedSeq is {}, but the next entry gets {}", command.expected_seq, end->count));
  json::Edit entry = policy::reset_edit(*session.entry(), true);
  put_copied_sums(entry, command.sums, command.taken_back == state.last_taken_back, context.rules->shared);
  put_copied_from(entry, command.copied_from);
  TRY(const auto done,
      reset_session(
          builder, session,
          {.reason = "replace", .files = {command.file}, .session_id = command.session_id, .entry = std::move(entry)}));
  if (!builder.out.need && !command.copied_from.empty())
    note_copied(builder, command.origin_id, {}, command.session_id);
  if (builder.out.need) return std::move(builder.out);
  return answer_reset(builder, session, done);
}

}  // namespace sessiond::decide
