// Steps that several decisions share. A step that needs a fact which is not in memory sets builder.out.need; its result
// is then meaningless, and the decision returns builder.out as it is.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/decide/commands.hpp"

namespace sessiond::decide {

// Finds the session of a target and checks its version: session_not_found, precondition_failed.
Result<const Session*> resolve(const AgentState& state, const Target& target);
// session_archived if the session takes no messages.
Result<void> check_open(const Session& session);
Result<const Session*> resolve_open(const AgentState& state, const Target& target);  // both

// Answers with the session as the API shows it. 201 also sets the location.
Decision answer_session(DecisionBuilder& builder, const Session& session, int status);
// Answers with a session that the last event has edited, if there is an event, and hands it on to the state.
Decision answer_edited(DecisionBuilder& builder, Session session);

// Returns {"code":…,"message":…}.
std::string error_json(std::string_view code, std::string_view message);

// Returns the JSON text that an edit sets the member `name` to. Null if it does not set it.
const std::string* value_of(const json::Edit& edit, std::string_view name);
// Returns the faults of fields that have a form of their own: runs::field_faults and policy::object_faults.
std::vector<Fault> form_faults(const json::Edit& edit, std::string_view before, std::string_view pointer_prefix);
// Checks the entry that a client gave for a new session and normalises it to the form in which it is stored. Problems
// point below /entry.
Result<void> check_new_entry(const Rules& rules, std::string_view agent, json::Edit& edit);
// validation_failed below `pointer` if an entry grows beyond its limit, or the entries of its agent beyond theirs.
Result<void> check_entry_growth(const DecisionBuilder& builder, std::string_view before, std::string_view after,
                                std::string_view pointer);
// Returns what of `wanted` changes an entry with these fields. `same` compares two values as raw JSON.
using SameValue = bool (*)(std::string_view, std::string_view);
json::Edit changes_of(const json::Index& fields, json::Edit wanted, SameValue same);
// Updates the session by `changes`, also its updatedAt if they do not name it. Does nothing if they are empty.
// validation_failed if a limit is reached, sdk_session_taken; may set builder.out.need (claim_sdk_session).
Result<void> change_entry(DecisionBuilder& builder, Session& session, json::Edit changes);
// Lets the entry of a session name its transcript, if it names none and OpenClaw, which shares the store, would look
// for <sessionId>-topic-<id>.jsonl: that of a thread, or of a Discord channel.
void name_thread_file(const DecisionBuilder& builder, const std::string& key, const std::string& session_id,
                      json::Edit& entry);
// Makes a session with the session id, the times and then `edit`, and the slug of its name, which must name each member
// once. Emits session.created. session_exists, validation_failed below `pointer` if a limit is reached,
// sdk_session_taken; may set builder.out.need (claim_sdk_session).
// The session gets the guardrails and the turnCap of its key (key_policies.hpp). `request`: the entry that a request
// names, null if it names none: what it says of these counts, or is forbidden if they are others and the requester may
// not set them. forbidden, too, if they are then not the guardrails of its parent.
Result<Session> create_session(DecisionBuilder& builder, const std::string& key, const std::string& session_id,
                               json::Edit edit, std::string_view reason, std::string_view pointer = "",
                               const json::Edit* request = nullptr);
// Returns the guardrails and the turnCap that an operator has set under a key. Null: none, ever.
const KeyPolicies::Policy* policy_of(const DecisionBuilder& builder, std::string_view key);
// forbidden if a session of this key would have other guardrails than `above`, the entry of its parent or its origin,
// and the requester may not set them.
Result<void> check_guarded_as(const DecisionBuilder& builder, std::string_view key, std::string_view above);

// Checks the whole entry that a client gave for the session `key`, and normalises it to the form in which it is stored;
// `there` is that session, or null. Fields of session.requireFields may be missing: an import has what the other
// program had. `last_prompt`: as in fit_tokens(). May set builder.out.need.
Result<void> check_whole_entry(DecisionBuilder& builder, const Session* there, const std::string& key, const Sees& sees,
                               json::Edit& entry, std::optional<std::int64_t> last_prompt = {});
// Returns what makes the entry `old` that whole entry; what is read-only stays.
json::Edit replacing(const std::string& old, json::Edit entry);
// Emits cost.exceeded when the cost of a session reaches its agent's cap.
void tell_cost(DecisionBuilder& builder, const Session& session, const std::optional<std::string>& topic,
               std::int64_t before, std::int64_t now);
// Puts messageCount and entryCount into an entry.
void put_counts(json::Edit& entry, const transcripts::Counts& counts);
// Returns the transcripts that a session's counts are of: its own and those of its topics, without streams.
std::vector<std::string> counted_files(const AgentState& state, const Session& session);
// Puts right the counts of a session that has none by today's rule. That gives it no new rev.
Decision decide_counts(const AgentState& state, const Session& session, const transcripts::Counts& counts,
                       const Context& context);
// Puts the counters and the first message of its transcripts into an entry. `shared`: store.mode.
void put_sums(json::Edit& entry, const transcripts::EntrySums& sums, bool shared);
// Gives staged transcripts to the session `key` with this id, which the next event makes or changes.
void take_staged(DecisionBuilder& builder, std::string_view key, const std::string& session_id,
                 const std::vector<StagedFile>& files);
// Tells of the topics among them, and has the ends of all files read again when they are asked for.
void tell_staged(DecisionBuilder& builder, const Session& session, const std::vector<StagedFile>& files);

// Gives the session a new session id: archives its transcripts and emits session.reset, or context.cleared.
struct ResetResult {
  std::string previous_session_id;
  std::vector<std::string> archived_as{};  // file names
};
struct Reset {
  std::string_view reason;
  bool keep_metadata = true;
  std::vector<StagedFile> files{};    // the transcripts that it has then
  std::string session_id{};           // that it has then; empty: a fresh one
  std::optional<json::Edit> entry{};  // what else changes, in place of what a reset does
  journal::EventType event = journal::EventType::session_reset;
};
Result<ResetResult> reset_session(DecisionBuilder& builder, Session& session, const Reset& reset);
// Answers with the session as it is then: `previousSessionId`, if it has another id, and `archivedAs`.
Decision answer_reset(DecisionBuilder& builder, const Session& session, const ResetResult& done);

// Places a line behind the end of the transcript `file`, and moves the end. `seq` is that of the line's event.
void place_line(DecisionBuilder& builder, TranscriptEnd& end, const std::string& file, std::uint64_t seq,
                journal::LinePosition position);

// Notes in the file with the changes of a transcript's messages (transcripts/changes.hpp) what the last event tells of
// them. `data`: of the entry, a JSON object. `fresh`: as for append_entries. May set builder.out.need.
void keep_change(DecisionBuilder& builder, std::string_view session_id, const std::optional<std::string>& topic,
                 std::string_view custom_type, std::string_view data, bool fresh = false);

// Checks that the agent may have one more session: validation_failed beyond limits.sessionsPerAgent.
Result<void> check_room(const DecisionBuilder& builder);

// spawnedBy and spawnDepth: which session is the parent of which.
// Finds the session that `spawned_by` (raw JSON) names as the parent of `key`. validation_failed at `pointer` if it
// names none, one that the requester does not see, or one that descends from `key`.
Result<const Session*> find_parent(const AgentState& state, std::string_view spawned_by, std::string_view key,
                                   const Sees& sees, std::string pointer);
// Returns the spawnDepth of one more child of `parent`. validation_failed beyond session.spawn.depth or
// session.spawn.count.
Result<std::int64_t> check_spawn(const AgentState& state, const Session& parent, const Rules& rules);
void put_parent(json::Edit& edit, const Session& parent, std::int64_t depth);
// Checks and completes spawnedBy and spawnDepth of a PUT of `key`, of which `there` is the session so far (or null).
// Tokens that see everything may import both, in any order of sessions. For other tokens both are read-only; a new
// session gets them as in create.
Result<void> check_put_parent(const AgentState& state, const Sees& sees, const Session* there, std::string_view key,
                              const Rules& rules, json::Edit& edit);
// A PUT by a token that may not set policy gives a new session what its parent, if there is one, is not allowed to do.
Result<void> inherit_policy_in_put(const AgentState& state, std::string_view key, const Context& context,
                                   json::Edit& edit);

// {"type":"text","text":…}, alone and as the only part of a content.
std::string text_part(std::string_view text);
std::string content_of_text(std::string_view text);

}  // namespace sessiond::decide
