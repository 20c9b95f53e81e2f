// Decisions about sessions: create, put, patch, delete, reset, archive, spawn, topics.
#include <fmt/format.h>

#include <algorithm>

#include "daemon/decide/commands.hpp"
#include "daemon/decide/free_id.hpp"
#include "daemon/decide/view.hpp"
#include "policy/activation.hpp"
#include "policy/entry_size.hpp"
#include "policy/reset.hpp"
#include "policy/usage.hpp"
#include "store/delivery/delivery.hpp"
#include "store/limits.hpp"
#include "store/names.hpp"
#include "transcripts/archive.hpp"

namespace sessiond {
namespace {

void answer_session(DecisionBuilder& builder, const Session& session, int status) {
  builder.out.status = status;
  builder.out.body = session_json(builder.state().id(), session);
  builder.out.etag = etag(session);
}

// The member `name` of edit, as JSON text.
const std::string* value_of(const json::Edit& edit, std::string_view name) {
  const auto found = std::ranges::find(edit.set, name, &json::Edit::Set::name);
  return found == edit.set.end() ? nullptr : &found->value;
}

// The transcripts of a session that exist: its own and its topics'. Nothing when the end of its own is not known yet.
std::optional<std::vector<std::string>> files_of(DecisionBuilder& builder, const Session& session) {
  const AgentState& state = builder.state();
  std::vector<std::string> files;
  const std::string own = AgentState::file_of(session, {});
  const TranscriptEnd* end = state.transcripts.find(own);
  if (end == nullptr) {
    builder.out.need = Need{Need::What::transcript_end, own};
    return {};
  }
  if (end->size != 0) files.push_back(own);
  if (const auto* topics = state.transcripts.topics(session.session_id)) {
    for (const std::string& topic : *topics) {
      std::string file = AgentState::file_of(session, topic);
      // Topics differ from each other, and so do their files.
      if (file != own && state.may_use(session, file)) files.push_back(std::move(file));
    }
  }
  return files;
}

// The archives that transcripts become. Clients are told the first names and how many more there are; the journal holds
// all of them: those beyond in a line position of the event (store/journal/line_position.hpp).
ArchivedAs archived_as(const std::vector<std::string>& files, std::string_view why, std::int64_t now) {
  ArchivedAs out;
  for (const std::string& file : files) {
    auto& names = out.told.size() < limits::archive_names ? out.told : out.more;
    names.push_back(archive_name(file, why, now));
  }
  return out;
}

// For the event that comes next.
void place_archives(DecisionBuilder& builder, const ArchivedAs& archived) {
  if (archived.more.empty()) return;
  builder.out.line_positions.push_back(
      {.agent = builder.state().id(), .seq = builder.next_seq(), .archives = archived.more});
}

// The entry of a new session as a client gave it: checked, and spelt as it is stored.
Result<void> checked_entry(json::Edit& edit) {
  if (auto fine = check_edit_size(edit.set.size() + edit.unset.size(), "{}", "/entry"); !fine) return fine;
  if (auto fine = check_entry_edit(edit, Import::no, "/entry"); !fine) return fine;
  normalize_entry_edit(edit);
  return normalize_patch(edit, "{}", "/entry", Nested::complete);
}

// The session that a create without a key asks for again.
const Session* named_by_id(const AgentState& state, const std::string& session_id) {
  if (session_id.empty()) return nullptr;
  if (const Session* there = state.find(session_id)) return there;
  return state.find_key(fmt::format("agent:{}:session:{}", state.id(), lower(session_id)));
}

constexpr int most_ancestors = 1000;  // that are looked at; foreign stores may name each other in a ring

// Whether the session of that key is the parent, or one of the parent's own.
bool is_above(const AgentState& state, const Session& parent, std::string_view key) {
  const std::string folded = folded_key(key);
  const Session* at = &parent;
  for (int i = 0; at != nullptr && i < most_ancestors; ++i) {
    if (folded_key(at->key()) == folded || folded_key(at->spawned_by) == folded) return true;
    at = at->spawned_by.empty() ? nullptr : state.find_key(at->spawned_by);
  }
  return false;
}

std::unexpected<Problem> descends_from_itself(std::string pointer, std::string_view key) {
  return fail_at(std::move(pointer), fmt::format("{} cannot descend from itself", key));
}

// The session that `spawned_by` (raw JSON) names as the parent of `key`. One that whoever asks does not see is none.
Result<const Session*> parent_named(const AgentState& state, std::string_view spawned_by, std::string_view key,
                                    const Sees& sees, std::string pointer) {
  const auto name = json::as_string(spawned_by);
  const Session* parent = name ? state.find_key(*name) : nullptr;
  if (parent == nullptr || (sees && !sees(*parent)))
    return fail_at(std::move(pointer), fmt::format("names no session of agent {}", state.id()));
  if (is_above(state, *parent, key)) return descends_from_itself(std::move(pointer), key);
  return parent;
}

std::int64_t depth_below(const Session& parent) {
  return add_counted(counted(json::find(*parent.entry(), "spawnDepth").value_or("0")).value_or(0), 1);
}

// How deep one more child of `parent` is; refused beyond session.spawn.depth and count.
Result<std::int64_t> room_below(const AgentState& state, const Session& parent, const Rules& rules) {
  const std::int64_t depth = depth_below(parent);
  if (depth > rules.spawn_depth) {
    return fail_at("", fmt::format("{} is {} deep already; session.spawn.depth is {}", parent.key(), depth - 1,
                                   rules.spawn_depth));
  }
  if (state.children(parent.key()).size() >= static_cast<std::size_t>(rules.spawn_count)) {
    return fail_at(
        "", fmt::format("{} may have no more children; session.spawn.count is {}", parent.key(), rules.spawn_count));
  }
  return depth;
}

// Makes `edit` say that it is one of `parent`'s.
void put_parent(json::Edit& edit, const Session& parent, std::int64_t depth) {
  edit.put_string("spawnedBy", parent.key());
  edit.put_int("spawnDepth", depth);
}

// spawnedBy and spawnDepth of a PUT. A token that sees everything imports them, in any order of sessions; for others
// they stay as they are, and a new session has them as create does.
Result<void> check_put_parent(const AgentState& state, const PutSession& command, const Session* there,
                              std::string_view key, const Rules& rules, json::Edit& edit) {
  const auto changed = [&](std::string_view name) -> std::optional<std::string> {
    const std::string* value = value_of(edit, name);
    if (value == nullptr || (there != nullptr && json::find(*there->entry(), name) == *value)) return {};
    return *value;
  };
  const auto spawned_by = changed("spawnedBy");
  const auto depth = changed("spawnDepth");
  if (!spawned_by && (!depth || !command.sees)) return {};
  const auto read_only = [](std::string pointer) { return fail_at(std::move(pointer), "is read-only"); };
  if (command.sees && there != nullptr) return read_only(spawned_by ? "/spawnedBy" : "/spawnDepth");
  if (!spawned_by) return read_only("/spawnDepth");
  if (!command.sees) {
    const std::string name = json::as_string(*spawned_by).value_or("");
    const Session* above = state.find_key(name);
    if (folded_key(name) == folded_key(key) || (above != nullptr && is_above(state, *above, key)))
      return descends_from_itself("/spawnedBy", key);
    if (above == nullptr) return {};  // imported later, or gone
    put_parent(edit, *above, (depth ? counted(*depth) : std::nullopt).value_or(depth_below(*above)));
    return {};
  }
  const auto parent = parent_named(state, *spawned_by, key, command.sees, "/spawnedBy");
  if (!parent) return std::unexpected(parent.error());
  const auto allowed = room_below(state, **parent, rules);
  if (!allowed) return std::unexpected(allowed.error());
  if (depth && counted(*depth) != *allowed) return read_only("/spawnDepth");
  put_parent(edit, **parent, *allowed);
  return {};
}

}  // namespace

std::string json_array(const std::vector<std::string>& texts) {
  std::string out = "[";
  for (const std::string& text : texts) {
    if (out.size() > 1) out += ',';
    json::append_quoted(out, text);
  }
  return out + "]";
}

std::string ArchivedAs::members() const {
  std::string out = "\"archivedAs\":" + json_array(told);
  if (!more.empty()) out += fmt::format(",\"archivedMore\":{}", more.size());
  return out;
}

Result<void> check_entry_growth(const DecisionBuilder& builder, std::string_view before, std::string_view after,
                                std::string_view pointer) {
  if (auto fine = check_entry_size(before, after, pointer); !fine || after.size() <= before.size()) return fine;
  const std::uint64_t most = builder.context().rules->entry_bytes_per_agent;
  if (builder.state().entry_bytes() + after.size() - before.size() <= most) return {};
  return fail_at(std::string(pointer),
                 fmt::format("the entries of agent {} have {} bytes; limits.entryBytesPerAgent is {}",
                             builder.state().id(), builder.state().entry_bytes(), most));
}

Result<const Session*> resolve(const AgentState& state, const Target& target) {
  const Session* session = state.find(target.key);
  if (session == nullptr)
    return fail(Code::session_not_found, fmt::format("agent {} has no session {}", state.id(), target.key));
  const auto fits = [now = etag(*session)](const std::string& wanted) { return wanted == "*" || wanted == now; };
  if (!target.if_match.empty() && std::ranges::none_of(target.if_match, fits)) {
    return std::unexpected(Problem{
        .code = Code::precondition_failed,
        .detail = fmt::format("If-Match is {}, the session is at {}", fmt::join(target.if_match, ", "), etag(*session)),
        .etag = etag(*session)});
  }
  return session;
}

json::Edit merge_patch(std::string_view entry, std::string_view patch) {
  const json::Index fields(entry);
  json::Edit edit;
  for (const json::Member& member : json::members(patch)) {
    std::string name = json::unescape(member.name);
    const auto old = fields.find(name);
    if (member.value == "null") {
      if (old) edit.unset.push_back(std::move(name));
      continue;
    }
    std::string value = json::compact(member.value);
    if (json::kind(value) == json::Kind::object) value = json::merged(old.value_or("{}"), value);
    if (!old || *old != value) edit.set.push_back({std::move(name), std::move(value)});
  }
  return edit;
}

Result<Session> create_session(DecisionBuilder& builder, const std::string& key, const std::string& session_id,
                               json::Edit edit, std::string_view reason, std::string_view pointer) {
  if (const Session* there = builder.state().find_key(key))  // however the key was spelt in the request
    return fail(Code::session_exists, fmt::format("{} is already there", there->key()));
  const std::int64_t now = builder.context().now;
  const std::uint64_t most = builder.context().rules->sessions_per_agent;
  if (builder.state().size() >= most) {
    return fail_at("", fmt::format("agent {} has {} sessions; limits.sessionsPerAgent is {}", builder.state().id(),
                                   builder.state().size(), most));
  }
  json::Edit entry;
  entry.put_string("sessionId", session_id);
  entry.put_int("updatedAt", now);
  entry.put_int("createdAt", now);
  entry.put_int("sessionStartedAt", now);
  entry.put_int("messageCount", 0);
  if (std::string earlier = earlier_sessions(builder, key); !earlier.empty())
    entry.put("previousSessions", std::move(earlier));
  const std::size_t ours = entry.set.size();
  for (auto& member : edit.set) {  // the client's names are different ones: only ours can be named again
    const auto own = std::ranges::find(entry.set.begin(), entry.set.begin() + static_cast<std::ptrdiff_t>(ours),
                                       member.name, &json::Edit::Set::name);
    if (own != entry.set.begin() + static_cast<std::ptrdiff_t>(ours)) {
      own->value = std::move(member.value);
    } else {
      entry.set.push_back(std::move(member));
    }
  }
  const std::string raw = json::apply("{}", entry);
  if (auto fine = check_entry_growth(builder, "{}", raw, pointer); !fine)
    return std::unexpected(std::move(fine.error()));
  std::string data;
  json::ObjectWriter writer(data);
  writer.raw("entry", raw);
  writer.string("reason", reason);
  writer.close();
  json::Edit rev;
  rev.put_int("rev", static_cast<std::int64_t>(builder.next_seq()));
  Session session(key, std::make_shared<const std::string>(json::apply(raw, rev)));
  builder.emit(EventType::session_created, session, data);
  return session;
}

Result<ResetDone> reset_session(DecisionBuilder& builder, Session& session, std::string_view reason,
                                bool keep_metadata) {
  const Context& context = builder.context();
  const auto files = files_of(builder, session);
  if (!files) return ResetDone{};
  ResetDone done{.previous_session_id = session.session_id,
                 .archived = archived_as(*files, "reset", context.ids->archive_time(context.now))};

  std::string list =
      fmt::format(R"([{{"sessionId":{},{},"endedAt":{},"reason":{}}})", json::quote(done.previous_session_id),
                  done.archived.members(), context.now, json::quote(reason));
  const RawEntry before = session.entry();
  std::size_t count = 1;
  for (const auto old : json::elements(json::find(*before, "previousSessions").value_or("[]"))) {
    if (count++ == limits::previous_sessions || list.size() + old.size() > limits::previous_bytes) break;
    list.append(",").append(old);
  }

  json::Edit edit = reset_edit(*session.entry(), keep_metadata);
  edit.put_string("sessionId", fresh_session_id(builder.state(), context));
  edit.put_int("updatedAt", moved_to(session, context.now));
  edit.put_int("sessionStartedAt", context.now);
  edit.put_int("messageCount", 0);
  edit.put("previousSessions", list + "]");
  if (wants_intro(session.chat_type)) edit.put(std::string(intro_field), "true");
  const std::string more =
      fmt::format(R"("previousSessionId":{},{},"reason":{})", json::quote(done.previous_session_id),
                  done.archived.members(), json::quote(reason));
  place_archives(builder, done.archived);
  builder.update(session, std::move(edit), EventType::session_reset, more);
  builder.out.through_checkpoint = true;
  return done;
}

Result<Decision> decide(const AgentState& state, const CreateSession& command, const Context& context) {
  DecisionBuilder builder(state, context);
  std::string key = command.key;
  if (!key.empty()) {
    const Session* there = state.find_key(key);
    if (there == nullptr) {
      auto made = canonical_key(key, state.id());
      if (!made) return std::unexpected(std::move(made.error()));
      key = *made;
      there = state.find_key(key);
    }
    if (there != nullptr) {
      if (!command.reuse) return fail(Code::session_exists, fmt::format("{} is already there", there->key()));
      answer_session(builder, *there, 200);
      return std::move(builder.out);
    }
  }
  const Session* same_id = command.key.empty() ? named_by_id(state, command.session_id) : nullptr;
  if (same_id != nullptr && command.reuse) {
    answer_session(builder, *same_id, 200);
    return std::move(builder.out);
  }
  std::string session_id = command.session_id;
  if (session_id.empty())
    session_id = fresh_session_id(state, context, command.timestamp_id ? IdKind::timestamp : IdKind::uuid);
  if (key.empty()) key = fmt::format("agent:{}:session:{}", state.id(), lower(session_id));
  if (!command.session_id.empty()) {
    if (auto fine = claim_session_id(builder, session_id, key, nullptr); !fine)
      return std::unexpected(std::move(fine.error()));
    if (builder.out.need) return std::move(builder.out);
  }
  if (key.size() > 512) return fail_at("/key", "longer than 512 bytes");
  json::Edit edit = command.entry;
  const std::string* given = value_of(edit, "spawnedBy");
  const std::optional<std::string> spawned_by = given != nullptr ? std::optional(*given) : std::nullopt;
  edit.remove("spawnedBy");
  std::erase(edit.unset, "spawnedBy");
  if (auto fine = checked_entry(edit); !fine) return std::unexpected(std::move(fine.error()));
  if (spawned_by) {
    const auto parent = parent_named(state, *spawned_by, key, command.sees, "/entry/spawnedBy");
    if (!parent) return std::unexpected(parent.error());
    const auto depth = room_below(state, **parent, *context.rules);
    if (!depth) return std::unexpected(depth.error());
    put_parent(edit, **parent, *depth);
  }
  if (command.ephemeral) edit.put("ephemeral", "true");
  const std::string* named_type = value_of(edit, "chatType");
  const std::string chat_type =
      named_type != nullptr ? json::as_string(*named_type).value_or("") : std::string(parse_key(key).chat_type);
  if (wants_intro(chat_type) && value_of(edit, intro_field) == nullptr) edit.put(std::string(intro_field), "true");
  auto session = create_session(builder, key, session_id, std::move(edit), "api", "/entry");
  if (!session) return std::unexpected(std::move(session.error()));
  answer_session(builder, *session, 201);
  builder.out.location = fmt::format("/v1/agents/{}/sessions/{}", state.id(), key);
  return std::move(builder.out);
}

const Session* put_target(const AgentState& state, const PutSession& command) {
  if (const Session* there = state.find(command.target.key)) return there;
  const auto key = canonical_key(command.target.key, state.id());
  return key ? state.find_key(*key) : nullptr;
}

Result<Decision> decide(const AgentState& state, const PutSession& command, const Context& context) {
  DecisionBuilder builder(state, context);
  json::Edit edit = command.entry;
  const Session* there = put_target(state, command);
  if (there == nullptr && !command.target.if_match.empty()) {
    return fail(Code::precondition_failed, fmt::format("If-Match is {}, but there is no session {}",
                                                       fmt::join(command.target.if_match, ", "), command.target.key));
  }
  Result<std::string> key = there != nullptr ? there->key() : canonical_key(command.target.key, state.id());
  if (!key) return std::unexpected(std::move(key.error()));
  const std::string_view before = there != nullptr ? std::string_view(*there->entry()) : "{}";
  if (auto fine = check_edit_size(edit.set.size(), before, ""); !fine) return std::unexpected(std::move(fine.error()));
  if (auto fine = take_identity(edit, *key, state.id(), ""); !fine) return std::unexpected(std::move(fine.error()));
  if (auto fine = check_entry_edit(edit, Import::yes, ""); !fine) return std::unexpected(std::move(fine.error()));
  if (auto fine = check_previous_sessions(edit, ""); !fine) return std::unexpected(std::move(fine.error()));
  if (auto fine = check_put_parent(state, command, there, *key, *context.rules, edit); !fine)
    return std::unexpected(std::move(fine.error()));
  normalize_entry_edit(edit);
  if (auto fine = normalize_patch(edit, "{}", "", Nested::complete); !fine)
    return std::unexpected(std::move(fine.error()));
  if (const auto* id = value_of(edit, "sessionId")) {
    const std::string session_id = json::as_string(*id).value_or("");
    if (auto fine = claim_session_id(builder, session_id, *key, there); !fine)
      return std::unexpected(std::move(fine.error()));
    if (builder.out.need) return std::move(builder.out);
  }
  if (there == nullptr) {
    const auto* id = value_of(edit, "sessionId");
    const std::string session_id = id ? *json::as_string(*id) : fresh_session_id(state, context);
    auto session = create_session(builder, *key, session_id, std::move(edit), "import", "");
    if (!session) return std::unexpected(std::move(session.error()));
    answer_session(builder, *session, 201);
    builder.out.location = fmt::format("/v1/agents/{}/sessions/{}", state.id(), *key);
    return std::move(builder.out);
  }
  if (auto fine = resolve(state, {.key = there->key(), .if_match = command.target.if_match}); !fine)
    return std::unexpected(std::move(fine.error()));
  Session session = *there;
  const RawEntry old = session.entry();
  const json::Index fields(*old);
  const std::string whole = json::apply("{}", edit);
  const json::Index wanted(whole);
  json::Edit changes;
  for (const json::Member& member : json::members(*old)) {
    std::string name = json::unescape(member.name);
    if (!wanted.find(name) && !read_only(name)) changes.unset.push_back(std::move(name));
  }
  for (auto& member : edit.set) {
    if (fields.find(member.name) != member.value) changes.set.push_back(std::move(member));
  }
  if (!changes.empty()) {
    if (value_of(changes, "updatedAt") == nullptr) changes.put_int("updatedAt", moved_to(session, context.now));
    builder.update(session, std::move(changes));
    if (auto fine = check_entry_growth(builder, *old, *session.entry(), ""); !fine)
      return std::unexpected(std::move(fine.error()));
  }
  answer_session(builder, session, 200);
  return std::move(builder.out);
}

Result<Decision> decide(const AgentState& state, const PatchSession& command, const Context& context) {
  DecisionBuilder builder(state, context);
  const auto there = resolve(state, command.target);
  if (!there) return std::unexpected(there.error());
  Session session = **there;
  json::Edit named;  // what the client named (each name once), for validation: also what does not change anything
  for (const json::Member& member : json::members(command.patch)) {
    std::string name = json::unescape(member.name);
    if (member.value == "null") {
      named.unset.push_back(std::move(name));
    } else {
      named.set.push_back({std::move(name), json::compact(member.value)});
    }
  }
  if (auto fine = check_edit_size(named.set.size() + named.unset.size(), *session.entry(), ""); !fine)
    return std::unexpected(std::move(fine.error()));
  if (auto fine = check_entry_edit(named, Import::no, ""); !fine) return std::unexpected(std::move(fine.error()));
  normalize_entry_edit(named);
  const RawEntry old = session.entry();
  if (auto fine = normalize_patch(named, *old, ""); !fine) return std::unexpected(std::move(fine.error()));
  const json::Index fields(*old);
  json::Edit edit;
  for (auto& member : named.set) {
    const auto before = fields.find(member.name);
    // deliveryContext is whole by now; other objects are merged as RFC 7396 has it
    if (json::kind(member.value) == json::Kind::object && member.name != "deliveryContext")
      member.value = json::merged(before.value_or("{}"), member.value);
    if (before != member.value) edit.set.push_back(std::move(member));
  }
  for (auto& name : named.unset) {
    if (fields.find(name)) edit.unset.push_back(std::move(name));
  }
  if (!edit.empty()) {
    edit.put_int("updatedAt", moved_to(session, context.now));
    builder.update(session, std::move(edit));
    if (auto fine = check_entry_growth(builder, *old, *session.entry(), ""); !fine)
      return std::unexpected(std::move(fine.error()));
  }
  answer_session(builder, session, 200);
  return std::move(builder.out);
}

Result<Decision> decide(const AgentState& state, const DeleteSession& command, const Context& context) {
  DecisionBuilder builder(state, context);
  builder.out.status = 204;
  if (command.missing_ok && state.find(command.target.key) == nullptr) return std::move(builder.out);
  const auto there = resolve(state, command.target);
  if (!there) return std::unexpected(there.error());
  const auto files = files_of(builder, **there);
  if (!files) return std::move(builder.out);
  const ArchivedAs archived = archived_as(*files, "deleted", context.ids->archive_time(context.now));
  const std::string data = fmt::format(R"({{{},"purged":{}}})", archived.members(), command.purge);
  place_archives(builder, archived);
  builder.emit(EventType::session_deleted, **there, data);
  builder.out.through_checkpoint = true;
  return std::move(builder.out);
}

Result<Decision> decide(const AgentState& state, const ResetSession& command, const Context& context) {
  DecisionBuilder builder(state, context);
  const auto there = resolve(state, command.target);
  if (!there) return std::unexpected(there.error());
  Session session = **there;
  const auto done = reset_session(builder, session, command.reason, command.keep_metadata);
  if (!done) return std::unexpected(done.error());
  if (builder.out.need) return std::move(builder.out);
  answer_session(builder, session, 200);
  builder.out.body.pop_back();
  builder.out.body +=
      fmt::format(R"(,"previousSessionId":{},{}}})", json::quote(done->previous_session_id), done->archived.members());
  return std::move(builder.out);
}

Result<Decision> decide(const AgentState& state, const ArchiveSession& command, const Context& context) {
  DecisionBuilder builder(state, context);
  const auto there = resolve(state, command.target);
  if (!there) return std::unexpected(there.error());
  Session session = **there;
  if (session.archived_at.has_value() != command.archived) {
    json::Edit edit;
    if (command.archived) {
      edit.put_int("archivedAt", context.now);
    } else {
      edit.remove("archivedAt");
    }
    edit.put_int("updatedAt", moved_to(session, context.now));
    if (command.archived) {
      builder.update(session, std::move(edit), EventType::session_archived, R"("archivedAs":[])");
    } else {
      builder.update(session, std::move(edit), EventType::session_unarchived);
    }
  }
  answer_session(builder, session, 200);
  return std::move(builder.out);
}

Result<Decision> decide(const AgentState& state, const SpawnSession& command, const Context& context) {
  DecisionBuilder builder(state, context);
  const auto there = resolve(state, command.target);
  if (!there) return std::unexpected(there.error());
  const Session& parent = **there;
  const auto depth = room_below(state, parent, *context.rules);
  if (!depth) return std::unexpected(depth.error());
  const bool nested = command.below_parent || parent.key().find(":subagent:") != std::string::npos;
  const std::string key =
      fmt::format("{}:subagent:{}", nested ? parent.key() : "agent:" + state.id(), context.ids->uuid());
  if (key.size() > 512) return fail_at("", "the child's key would be longer than 512 bytes");
  json::Edit edit = command.entry;
  if (auto fine = checked_entry(edit); !fine) return std::unexpected(std::move(fine.error()));
  if (!command.label.empty()) edit.put_string("label", command.label);
  if (!command.task.empty()) edit.put_string("task", command.task);
  if (command.below_parent && !parent.channel.empty() && value_of(edit, "channel") == nullptr)
    edit.put_string("channel", parent.channel);
  put_parent(edit, parent, *depth);
  auto session = create_session(builder, key, fresh_session_id(state, context), std::move(edit), "spawn", "/entry");
  if (!session) return std::unexpected(std::move(session.error()));
  answer_session(builder, *session, 201);
  builder.out.location = fmt::format("/v1/agents/{}/sessions/{}", state.id(), key);
  return std::move(builder.out);
}

Result<Decision> decide(const AgentState& state, const DeleteTopic& command, const Context& context) {
  DecisionBuilder builder(state, context);
  builder.out.status = 204;
  const auto there = resolve(state, command.target);
  if (!there) return std::unexpected(there.error());
  Session session = **there;
  const auto* topics = state.transcripts.topics(session.session_id);
  const std::string file = AgentState::file_of(session, command.topic);
  if (topics == nullptr || !topics->contains(command.topic) || !state.may_use(session, file)) {
    return fail(Code::not_found, fmt::format("{} has no topic {}", session.key(), command.topic));
  }
  json::Edit edit;
  edit.put_int("updatedAt", moved_to(session, context.now));
  std::string data;
  json::ObjectWriter writer(data);
  writer.raw("archivedAs", json_array({archive_name(file, "deleted", context.ids->archive_time(context.now))}));
  json::append_edit(writer, edit);
  writer.close();
  builder.emit(EventType::topic_deleted, session, data, command.topic);
  return std::move(builder.out);
}

}  // namespace sessiond
