// The decision about a session that comes with its transcripts.
#include <fmt/format.h>

#include "daemon/decide/free_id.hpp"
#include "daemon/decide/naming.hpp"
#include "daemon/decide/steps.hpp"
#include "policy/runs/entry_fields.hpp"
#include "store/names.hpp"
#include "store/try.hpp"

namespace sessiond::decide {
namespace {

// Finds the session that has both the key and the id of an import. Null: neither is taken, as far as memory tells.
// session_exists if they belong to two sessions, or to one that the requester does not see.
Result<const Session*> same_session(const DecisionBuilder& builder, const std::string& key, const std::string& id) {
  const Session* there = builder.state().find_key(key);
  const Session* of_id = builder.state().find(id);
  if (there == nullptr && of_id == nullptr) return nullptr;
  const auto& sight = builder.context().sight;
  const bool same = there == of_id && there->session_id == id;
  if (!same || !(sight.whole_agent || sight.sees(there->key(), there->audience())))
    return fail(Code::session_exists, fmt::format("another session has the key {} or the id {}", key, id));
  return there;
}

}  // namespace

Result<Decision> decide(const AgentState& state, const ImportSession& command, const Context& asked) {
  Context context = asked;
  FetchedIds found;
  if (command.found) found.emplace(command.session_id, *command.found);
  if (command.found) context.on_disk = &found;
  DecisionBuilder builder(state, context);
  TRY(const auto key, command.key.empty() ? Result<std::string>(key_of_id(state, command.session_id))
                                          : store::canonical_key(command.key, state.id()));
  TRY(const Session* there, same_session(builder, key, command.session_id));
  if (there != nullptr && !command.replace) return std::move(builder.out);
  json::Edit entry = command.entry;
  entry.put_string("sessionId", command.session_id);
  TRY(check_whole_entry(builder, there, key, command.sees, entry, command.last_prompt));
  if (builder.out.need) return std::move(builder.out);
  if (there == nullptr) {
    if (context.on_disk->at(command.session_id).transcripts)
      return fail(Code::session_exists,
                  fmt::format("a transcript of {} is there already: adopt it, or move it away", command.session_id));
    TRY(runs::check_binding("{}", entry, ""));
    TRY(inherit_policy_in_put(state, key, context, entry));
    take_staged(builder, key, command.session_id, command.files);
    TRY(auto session, create_session(builder, key, command.session_id, std::move(entry), "import", ""));
    if (builder.out.need) return std::move(builder.out);
    tell_staged(builder, session, command.files);
    return answer_session(builder, session, 201);
  }
  Session session = *there;
  const std::string old = *there->entry();
  TRY(runs::check_binding(old, entry, ""));
  json::Edit changes = replacing(old, std::move(entry));
  if (const auto* kept = policy_of(builder, session.key())) keep_policy(*kept, json::apply(old, changes), changes);
  for (const char* field : {"firstMessage", "firstMessageId"})  // of the transcript that is replaced
    if (value_of(changes, field) == nullptr) changes.unset.emplace_back(field);
  put_slug(builder, session.key(), old, changes);
  if (!context.sight.sets_policy) TRY(runs::check_keeps_policy(old, changes));
  TRY(check_entry_growth(builder, old, json::apply(old, changes), ""));
  TRY(reset_session(builder, session,
                    {.reason = "import", .files = command.files, .session_id = command.session_id, .entry = changes}));
  if (builder.out.need) return std::move(builder.out);
  return answer_session(builder, session, 200);
}

}  // namespace sessiond::decide
