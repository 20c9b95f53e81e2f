// Decisions about a session's entry: create, put, patch, archive and unarchive.
#include <fmt/format.h>

#include <algorithm>

#include "daemon/decide/free_id.hpp"
#include "daemon/decide/naming.hpp"
#include "daemon/decide/run_steps.hpp"
#include "daemon/decide/takeover_steps.hpp"
#include "daemon/decide/token_counters.hpp"
#include "policy/activation.hpp"
#include "policy/entry_objects.hpp"
#include "policy/entry_size.hpp"
#include "policy/pointer.hpp"
#include "policy/reset.hpp"
#include "policy/runs/entry_fields.hpp"
#include "store/delivery/delivery.hpp"
#include "store/names.hpp"
#include "store/try.hpp"

namespace sessiond::decide {
namespace {

// Finds the session that a create with this session id and no key would make again.
const Session* named_by_id(const AgentState& state, const std::string& session_id) {
  if (session_id.empty()) return nullptr;
  if (const Session* there = state.find(session_id)) return there;
  return state.find_key(key_of_id(state, session_id));
}

bool same_bytes(std::string_view a, std::string_view b) { return a == b; }

// Checks that an entry has the fields of session.requireFields. `has` tells whether it has a field. Fails with every
// field that it lacks (validation_failed).
Result<void> check_required(const std::vector<std::string>& required, std::string_view pointer_prefix,
                            const std::function<bool(const std::string&)>& has) {
  std::vector<Fault> faults;
  for (const std::string& field : required)
    if (!has(field))
      faults.push_back({policy::pointer_to(pointer_prefix, field), "is required (session.requireFields)"});
  if (!faults.empty()) return fail_with(std::move(faults));
  return {};
}

// Tells whether an edit only says when the session was made, as it is shown. An entry of another program may lack
// createdAt; it is shown with one, and a Session that is sent back as it was shown changes nothing.
bool only_tells_creation(const json::Edit& edit, const Session& session) {
  return edit.unset.empty() && edit.set.size() == 1 && edit.set.front().name == "createdAt" &&
         edit.set.front().value == std::to_string(session.created_at);
}

// Refuses other channels than the session has. Who sees the whole agent may bring a session that another daemon had.
Result<void> check_channels(const Session* there, const Context& context, const json::Edit& edit) {
  const std::string* named = value_of(edit, "channels");
  if (named == nullptr || (there == nullptr && context.sight.whole_agent)) return {};
  const auto has = there != nullptr ? json::find(*there->entry(), "channels") : std::nullopt;
  if (has && json::same(*has, *named)) return {};
  return fail_at("/channels", "is read-only");
}

}  // namespace

Result<void> check_whole_entry(DecisionBuilder& builder, const Session* there, const std::string& key, const Sees& sees,
                               json::Edit& edit, std::optional<std::int64_t> last_prompt) {
  const AgentState& state = builder.state();
  const Rules& rules = *builder.context().rules;
  const std::string_view before = there != nullptr ? std::string_view(*there->entry()) : "{}";
  TRY(policy::check_edit_size(edit.set.size(), before, ""));
  TRY(policy::take_identity(edit, key, state.id(), ""));
  policy::drop_unchanged_run_fields(edit, before);
  TRY(check_name(rules, edit, "", before));
  TRY(policy::check_entry_edit(edit, policy::Import::yes, "", form_faults(edit, before, "")));
  TRY(policy::check_previous_sessions(edit, ""));
  TRY(check_put_parent(state, sees, there, key, rules, edit));
  policy::normalize_entry_edit(edit);
  fit_tokens(edit, rules.shared, last_prompt);
  policy::complete_objects(edit, rules.of_agent(state.id()).fs_scope);
  TRY(delivery::normalize_patch(edit, json::Index("{}"), "", delivery::Nested::complete));
  if (const auto* id = value_of(edit, "sessionId")) {
    TRY(claim_session_id(builder, json::as_string(*id).value_or(""), key, there));
    if (builder.out.need) return {};
  }
  return {};
}

json::Edit replacing(const std::string& old, json::Edit entry) {
  const std::string whole = json::apply("{}", entry);
  const json::Index wanted(whole);
  entry.unset.clear();
  for (const json::Member& member : json::members(old)) {
    std::string name = json::unescape(member.name);
    const bool is_outdated = name == "entryCount" && wanted.find("messageCount").has_value();
    if (!wanted.find(name) && (is_outdated || !policy::read_only(name))) entry.unset.push_back(std::move(name));
  }
  return entry;
}

Result<Decision> decide(const AgentState& state, const CreateSession& command, const Context& context) {
  DecisionBuilder builder(state, context);
  std::string key = command.key;
  if (!key.empty()) {
    const Session* there = state.find_key(key);
    if (there == nullptr) {
      TRY(key, store::canonical_key(key, state.id()));
      there = state.find_key(key);
    }
    if (there != nullptr) {
      if (!command.reuse) return fail(Code::session_exists, fmt::format("{} is already there", there->key()));
      return answer_session(builder, *there, 200);
    }
  }
  const Session* same_id = command.key.empty() ? named_by_id(state, command.session_id) : nullptr;
  if (same_id != nullptr && command.reuse) return answer_session(builder, *same_id, 200);
  std::string session_id = command.session_id;
  if (session_id.empty())
    session_id = fresh_session_id(state, context, command.timestamp_id ? IdKind::timestamp : IdKind::uuid);
  if (key.empty()) key = key_of_id(state, session_id);
  if (!command.session_id.empty()) {
    TRY(claim_session_id(builder, session_id, key, nullptr));
    if (builder.out.need) return std::move(builder.out);
  }
  if (key.size() > 512) return fail_at("/key", "longer than 512 bytes");
  const bool adopts = !command.session_id.empty() && context.on_disk->at(session_id).transcripts;
  json::Edit edit = command.entry;
  const std::string* given = value_of(edit, "spawnedBy");
  const std::optional<std::string> spawned_by = given != nullptr ? std::optional(*given) : std::nullopt;
  edit.remove("spawnedBy");
  std::erase(edit.unset, "spawnedBy");
  TRY(check_new_entry(*context.rules, state.id(), edit));
  if (spawned_by) {
    TRY(const auto parent, find_parent(state, *spawned_by, key, command.sees, "/entry/spawnedBy"));
    TRY(const auto depth, check_spawn(state, *parent, *context.rules));
    put_parent(edit, *parent, depth);
    TRY(runs::inherit_policy(*parent->entry(), edit, context.sight.sets_policy));
  }
  TRY(check_required(context.rules->require_fields, "/entry",
                     [&](const std::string& field) { return value_of(edit, field) != nullptr; }));
  const std::string* named_type = value_of(edit, "chatType");
  const std::string chat_type =
      named_type != nullptr ? json::as_string(*named_type).value_or("") : std::string(store::parse_key(key).chat_type);
  if (policy::wants_intro(chat_type) && value_of(edit, policy::intro_field) == nullptr)
    edit.put(std::string(policy::intro_field), "true");
  TRY(auto session,
      create_session(builder, key, session_id, std::move(edit), adopts ? "adopt" : "api", "/entry", &command.entry));
  return answer_session(builder, session, 201);
}

const Session* put_target(const AgentState& state, const PutSession& command) {
  if (const Session* there = state.find(command.target.key)) return there;
  const auto key = store::canonical_key(command.target.key, state.id());
  return key ? state.find_key(*key) : nullptr;
}

Result<Decision> decide(const AgentState& state, const PutSession& command, const Context& context) {
  DecisionBuilder builder(state, context);
  const Session* there = put_target(state, command);
  if (there == nullptr && !command.target.if_match.empty()) {
    return fail(Code::precondition_failed, fmt::format("If-Match is {}, but there is no session {}",
                                                       fmt::join(command.target.if_match, ", "), command.target.key));
  }
  TRY(const auto key, there != nullptr ? there->key() : store::canonical_key(command.target.key, state.id()));
  TRY(policy::check_named_size(command.size, there != nullptr ? std::string_view(*there->entry()) : "{}", ""));
  json::Edit edit = command.entry;
  TRY(check_channels(there, context, edit));
  TRY(check_whole_entry(builder, there, key, command.sees, edit));
  if (builder.out.need) return std::move(builder.out);
  TRY(check_required(context.rules->require_fields, "", [&](const std::string& field) {
    const std::string* value = value_of(edit, field);
    return value != nullptr && *value != "null";
  }));
  if (there == nullptr) {
    const std::string* id = value_of(edit, "sessionId");
    const std::string session_id = id != nullptr ? json::as_string(*id).value_or("") : fresh_session_id(state, context);
    TRY(runs::check_binding("{}", edit, ""));
    TRY(inherit_policy_in_put(state, key, context, edit));
    TRY(auto session, create_session(builder, key, session_id, std::move(edit), "import", "", &command.entry));
    return answer_session(builder, session, 201);
  }
  TRY(resolve(state, {.key = there->key(), .if_match = command.target.if_match}));
  Session session = *there;
  const sessions::RawEntry old = session.entry();
  edit = replacing(*old, std::move(edit));
  put_slug(builder, session.key(), *old, edit);
  TRY(runs::check_binding(*old, edit, ""));
  if (!context.sight.sets_policy) TRY(runs::check_keeps_policy(*old, edit));
  json::Edit changes = changes_of(json::Index(*old), std::move(edit), same_bytes);
  if (only_tells_creation(changes, session)) changes = {};
  if (const std::string* id = value_of(changes, "sessionId")) {  // it begins another conversation
    for (std::string& field : policy::reset_edit(*old, true).unset)
      if (policy::read_only(field) && value_of(changes, field) == nullptr) changes.remove(std::move(field));
    TRY(check_entry_growth(builder, *old, json::apply(*old, changes), ""));
    TRY(reset_session(builder, session,
                      {.reason = "put", .session_id = json::as_string(*id).value_or(""), .entry = changes}));
    if (builder.out.need) return std::move(builder.out);
    return answer_session(builder, session, 200);
  }
  TRY(change_entry(builder, session, std::move(changes)));
  return answer_edited(builder, std::move(session));
}

Result<Decision> decide(const AgentState& state, const PatchSession& command, const Context& context) {
  DecisionBuilder builder(state, context);
  TRY(const auto there, resolve(state, command.target));
  TRY(policy::check_snapshot(*there->entry(), command.snapshot));
  TRY(policy::check_named_size(command.size, *there->entry(), ""));
  Session session = *there;
  json::Edit named;  // all that the client named, each name once: what changes nothing is validated, too
  for (const json::Member& member : json::members(command.patch)) {
    std::string name = json::unescape(member.name);
    if (member.value == "null") {
      named.unset.push_back(std::move(name));
    } else {
      named.set.push_back({std::move(name), json::compact(member.value)});
    }
  }
  TRY(policy::check_edit_size(named.set.size() + named.unset.size(), *session.entry(), ""));
  TRY(check_required(context.rules->require_fields, "", [&](const std::string& field) {
    return std::ranges::find(named.unset, field) == named.unset.end();
  }));
  TRY(check_name(*context.rules, named, "", *session.entry_with_old_counters()));
  TRY(policy::check_entry_edit(named, policy::Import::no, "", runs::field_faults(named, "")));
  policy::normalize_entry_edit(named);
  const sessions::RawEntry old = session.entry();
  const json::Index fields(*old);
  put_slug(builder, session.key(), *old, named);
  TRY(delivery::normalize_patch(named, fields, ""));
  for (auto& member : named.set) {
    // normalize_patch made deliveryContext complete, and snapshots are whole; other objects are merged as RFC 7396 says
    if (json::kind(member.value) == json::Kind::object && member.name != "deliveryContext" &&
        !policy::is_snapshot(member.name))
      member.value = json::merged(fields.find(member.name).value_or("{}"), member.value);
  }
  if (auto faults = policy::object_faults(named, *old, ""); !faults.empty()) return fail_with(std::move(faults));
  policy::complete_objects(named, context.rules->of_agent(state.id()).fs_scope);
  TRY(runs::check_binding(*old, named, ""));
  if (!context.sight.sets_policy) TRY(runs::check_keeps_policy(*old, named));
  TRY(change_entry(builder, session, changes_of(fields, std::move(named), same_bytes)));
  return answer_edited(builder, std::move(session));
}

Result<Decision> decide(const AgentState& state, const ArchiveSession& command, const Context& context) {
  DecisionBuilder builder(state, context);
  TRY(const auto there, resolve(state, command.target));
  Session session = *there;
  if (session.archived_at.has_value() != command.archived) {
    if (command.archived) TRY(end_all(builder, session, "the session is archived"));
    if (builder.out.need) return std::move(builder.out);
    if (command.archived) end_takeover(builder, session);
    json::Edit edit;
    if (command.archived) {
      edit.put_int("archivedAt", context.now);
    } else {
      edit.remove("archivedAt");
    }
    edit.put_int("updatedAt", moved_to(session, context.now));
    const auto type = command.archived ? journal::EventType::session_archived : journal::EventType::session_unarchived;
    builder.update(session, std::move(edit), type, command.archived ? R"("archivedAs":[])" : "");
  }
  return answer_edited(builder, std::move(session));
}

}  // namespace sessiond::decide
