// Decisions about sessions: create, put, patch, delete, reset, archive, spawn, topics.
#include <fmt/format.h>

#include <algorithm>

#include "daemon/ledger/commands.hpp"
#include "daemon/ledger/view.hpp"
#include "policy/reset.hpp"
#include "store/delivery.hpp"
#include "store/names.hpp"
#include "transcripts/archive.hpp"

namespace sessiond {
namespace {

constexpr std::size_t most_previous = 50;  // session ids that an entry remembers for S/history

void answer_session(Drafting& drafting, const Session& session, int status) {
  drafting.out.status = status;
  drafting.out.body = session_json(drafting.state().id(), session);
  drafting.out.etag = etag(session);
}

// The member `name` of edit, as JSON text.
const std::string* value_of(const json::Edit& edit, std::string_view name) {
  const auto found = std::ranges::find(edit.set, name, &json::Edit::Set::name);
  return found == edit.set.end() ? nullptr : &found->value;
}

// The transcripts of a session that exist: its own and its topics'. Nothing when the end of its own is not known yet.
std::optional<std::vector<std::string>> files_of(Drafting& drafting, const Session& session) {
  const AgentState& state = drafting.state();
  std::vector<std::string> files;
  const std::string own = AgentState::file_of(session, {});
  const TranscriptEnd* end = state.transcript(own);
  if (end == nullptr) {
    drafting.out.need = Need{Need::What::transcript_end, own};
    return {};
  }
  if (end->size != 0) files.push_back(own);
  if (const auto* topics = state.topics(session.session_id)) {
    for (const std::string& topic : *topics) {
      const std::string file = AgentState::file_of(session, topic);
      if (std::ranges::find(files, file) == files.end()) files.push_back(file);
    }
  }
  return files;
}

std::vector<std::string> archive_names(const std::vector<std::string>& files, std::string_view why, std::int64_t now) {
  std::vector<std::string> out;
  out.reserve(files.size());
  for (const std::string& file : files) out.push_back(archive_name(file, why, now));
  return out;
}

Result<std::string> fresh_session_id(const AgentState& state, const CreateSession& command, const Context& context) {
  if (command.session_id.empty())
    return command.timestamp_id ? context.ids->timestamp_id(context.now) : context.ids->uuid();
  if (auto fine = check_session_id(command.session_id); !fine) return std::unexpected(std::move(fine.error()));
  if (state.find(command.session_id) != nullptr) {  // whose it is may be more than the token may know
    return fail(Code::session_exists, fmt::format("the session id {} is taken", command.session_id));
  }
  return command.session_id;
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
  json::Edit edit;
  for (const json::Member& member : json::members(patch)) {
    std::string name = json::unescape(member.name);
    const auto old = json::find(entry, name);
    if (member.value == "null") {
      if (old) edit.remove(std::move(name));
      continue;
    }
    std::string value = json::compact(member.value);
    if (json::kind(value) == json::Kind::object) {
      const std::string_view base = old && json::kind(*old) == json::Kind::object ? *old : "{}";
      value = json::apply(base, merge_patch(base, value));
    }
    if (!old || *old != value) edit.put(std::move(name), std::move(value));
  }
  return edit;
}

Result<Session> create_session(Drafting& drafting, const std::string& key, const std::string& session_id,
                               json::Edit edit, std::string_view reason) {
  const std::int64_t now = drafting.context().now;
  json::Edit entry;
  entry.put_string("sessionId", session_id);
  entry.put_int("updatedAt", now);
  entry.put_int("createdAt", now);
  entry.put_int("sessionStartedAt", now);
  entry.put_int("messageCount", 0);
  for (auto& member : edit.set) entry.put(std::move(member.name), std::move(member.value));
  const std::string raw = json::apply("{}", entry);
  std::string data;
  json::ObjectWriter writer(data);
  writer.raw("entry", raw);
  writer.string("reason", reason);
  writer.close();
  json::Edit rev;
  rev.put_int("rev", static_cast<std::int64_t>(drafting.next_seq()));
  Session session(key, std::make_shared<const std::string>(json::apply(raw, rev)));
  drafting.emit(EventType::session_created, session, data);
  return session;
}

Result<ResetDone> reset_session(Drafting& drafting, Session& session, std::string_view reason, bool keep_metadata) {
  const Context& context = drafting.context();
  const auto files = files_of(drafting, session);
  if (!files) return ResetDone{};
  ResetDone done{.previous_session_id = session.session_id,
                 .archived_as = archive_names(*files, "reset", context.ids->archive_time(context.now))};

  std::vector<std::string> previous{fmt::format(R"({{"sessionId":{},"archivedAs":{},"endedAt":{},"reason":{}}})",
                                                json::quote(done.previous_session_id), json_array(done.archived_as),
                                                context.now, json::quote(reason))};
  const std::string before(json::find(*session.entry(), "previousSessions").value_or("[]"));
  for (const auto old : json::elements(before)) {
    if (previous.size() < most_previous) previous.emplace_back(old);
  }
  std::string list = "[";
  for (const auto& item : previous) list.append(list.size() > 1 ? "," : "").append(item);

  json::Edit edit = reset_edit(*session.entry(), keep_metadata);
  edit.put_string("sessionId", context.ids->uuid());
  edit.put_int("updatedAt", moved_to(session, context.now));
  edit.put_int("sessionStartedAt", context.now);
  edit.put_int("messageCount", 0);
  edit.put("previousSessions", list + "]");
  const std::string more =
      fmt::format(R"("previousSessionId":{},"archivedAs":{},"reason":{})", json::quote(done.previous_session_id),
                  json_array(done.archived_as), json::quote(reason));
  drafting.update(session, std::move(edit), EventType::session_reset, more);
  drafting.out.through_checkpoint = true;
  return done;
}

Result<Decision> decide(const AgentState& state, const CreateSession& command, const Context& context) {
  Drafting drafting(state, context);
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
      answer_session(drafting, *there, 200);
      return std::move(drafting.out);
    }
  }
  auto session_id = fresh_session_id(state, command, context);
  if (!session_id) return std::unexpected(std::move(session_id.error()));
  if (key.empty()) key = fmt::format("agent:{}:session:{}", state.id(), lower(*session_id));
  if (key.size() > 512) return fail_at("/key", "longer than 512 bytes");
  json::Edit edit = command.entry;
  if (auto fine = check_entry_edit(edit, Import::no, "/entry"); !fine) return std::unexpected(std::move(fine.error()));
  normalize_entry_edit(edit);
  if (auto fine = normalize_patch(edit, "{}", "/entry", Nested::complete); !fine)
    return std::unexpected(std::move(fine.error()));
  if (command.ephemeral) edit.put("ephemeral", "true");
  auto session = create_session(drafting, key, *session_id, std::move(edit), "api");
  if (!session) return std::unexpected(std::move(session.error()));
  answer_session(drafting, *session, 201);
  drafting.out.location = fmt::format("/v1/agents/{}/sessions/{}", state.id(), key);
  return std::move(drafting.out);
}

Result<Decision> decide(const AgentState& state, const PutSession& command, const Context& context) {
  Drafting drafting(state, context);
  json::Edit edit = command.entry;
  const Session* there = state.find(command.target.key);
  if (there == nullptr && !command.target.if_match.empty()) {
    return fail(Code::precondition_failed, fmt::format("If-Match is {}, but there is no session {}",
                                                       fmt::join(command.target.if_match, ", "), command.target.key));
  }
  Result<std::string> key = there != nullptr ? there->key() : canonical_key(command.target.key, state.id());
  if (!key) return std::unexpected(std::move(key.error()));
  if (auto fine = take_identity(edit, *key, state.id(), ""); !fine) return std::unexpected(std::move(fine.error()));
  if (auto fine = check_entry_edit(edit, Import::yes, ""); !fine) return std::unexpected(std::move(fine.error()));
  normalize_entry_edit(edit);
  if (auto fine = normalize_patch(edit, "{}", "", Nested::complete); !fine)
    return std::unexpected(std::move(fine.error()));
  if (const auto* id = value_of(edit, "sessionId")) {
    const std::string session_id = json::as_string(*id).value_or("");
    if (auto fine = check_session_id(session_id); !fine) return std::unexpected(std::move(fine.error()));
    const Session* taken = state.find(session_id);
    if (taken != nullptr && taken != there) {
      return fail(Code::session_exists, fmt::format("the session id {} is taken", session_id));
    }
  }
  if (there == nullptr) {
    const auto* id = value_of(edit, "sessionId");
    const std::string session_id = id ? *json::as_string(*id) : context.ids->uuid();
    auto session = create_session(drafting, *key, session_id, std::move(edit), "import");
    if (!session) return std::unexpected(std::move(session.error()));
    answer_session(drafting, *session, 201);
    drafting.out.location = fmt::format("/v1/agents/{}/sessions/{}", state.id(), *key);
    return std::move(drafting.out);
  }
  if (auto fine = resolve(state, command.target); !fine) return std::unexpected(std::move(fine.error()));
  Session session = *there;
  const RawEntry old = session.entry();
  json::Edit changes;
  for (const json::Member& member : json::members(*old)) {
    const std::string name = json::unescape(member.name);
    if (value_of(edit, name) == nullptr && !read_only(name)) changes.remove(name);
  }
  for (auto& member : edit.set) {
    if (json::find(*old, member.name) != member.value) changes.put(member.name, member.value);
  }
  if (!changes.empty()) {
    if (value_of(changes, "updatedAt") == nullptr) changes.put_int("updatedAt", moved_to(session, context.now));
    drafting.update(session, std::move(changes));
  }
  answer_session(drafting, session, 200);
  return std::move(drafting.out);
}

Result<Decision> decide(const AgentState& state, const PatchSession& command, const Context& context) {
  Drafting drafting(state, context);
  const auto there = resolve(state, command.target);
  if (!there) return std::unexpected(there.error());
  Session session = **there;
  json::Edit named;  // what the client named, for validation: also what does not change anything
  for (const json::Member& member : json::members(command.patch)) {
    std::string name = json::unescape(member.name);
    if (member.value == "null") {
      named.remove(std::move(name));
    } else {
      named.put(std::move(name), json::compact(member.value));
    }
  }
  if (auto fine = check_entry_edit(named, Import::no, ""); !fine) return std::unexpected(std::move(fine.error()));
  normalize_entry_edit(named);
  const RawEntry old = session.entry();
  if (auto fine = normalize_patch(named, *old, ""); !fine) return std::unexpected(std::move(fine.error()));
  json::Edit edit;
  for (auto& member : named.set) {
    const auto before = json::find(*old, member.name);
    // deliveryContext is whole by now; other objects are merged as RFC 7396 has it
    if (json::kind(member.value) == json::Kind::object && member.name != "deliveryContext") {
      const std::string_view base = before && json::kind(*before) == json::Kind::object ? *before : "{}";
      member.value = json::apply(base, merge_patch(base, member.value));
    }
    if (before != member.value) edit.put(std::move(member.name), std::move(member.value));
  }
  for (auto& name : named.unset) {
    if (json::find(*old, name)) edit.remove(std::move(name));
  }
  if (!edit.empty()) {
    edit.put_int("updatedAt", moved_to(session, context.now));
    drafting.update(session, std::move(edit));
  }
  answer_session(drafting, session, 200);
  return std::move(drafting.out);
}

Result<Decision> decide(const AgentState& state, const DeleteSession& command, const Context& context) {
  Drafting drafting(state, context);
  drafting.out.status = 204;
  if (command.missing_ok && state.find(command.target.key) == nullptr) return std::move(drafting.out);
  const auto there = resolve(state, command.target);
  if (!there) return std::unexpected(there.error());
  const auto files = files_of(drafting, **there);
  if (!files) return std::move(drafting.out);
  const std::string data =
      fmt::format(R"({{"archivedAs":{},"purged":{}}})",
                  json_array(archive_names(*files, "deleted", context.ids->archive_time(context.now))), command.purge);
  drafting.emit(EventType::session_deleted, **there, data);
  drafting.out.through_checkpoint = true;
  return std::move(drafting.out);
}

Result<Decision> decide(const AgentState& state, const ResetSession& command, const Context& context) {
  Drafting drafting(state, context);
  const auto there = resolve(state, command.target);
  if (!there) return std::unexpected(there.error());
  Session session = **there;
  const auto done = reset_session(drafting, session, command.reason, command.keep_metadata);
  if (!done) return std::unexpected(done.error());
  if (drafting.out.need) return std::move(drafting.out);
  answer_session(drafting, session, 200);
  drafting.out.body.pop_back();
  drafting.out.body += fmt::format(R"(,"previousSessionId":{},"archivedAs":{}}})",
                                   json::quote(done->previous_session_id), json_array(done->archived_as));
  return std::move(drafting.out);
}

Result<Decision> decide(const AgentState& state, const ArchiveSession& command, const Context& context) {
  Drafting drafting(state, context);
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
      drafting.update(session, std::move(edit), EventType::session_archived, R"("archivedAs":[])");
    } else {
      drafting.update(session, std::move(edit), EventType::session_unarchived);
    }
  }
  answer_session(drafting, session, 200);
  return std::move(drafting.out);
}

Result<Decision> decide(const AgentState& state, const SpawnSession& command, const Context& context) {
  Drafting drafting(state, context);
  const auto there = resolve(state, command.target);
  if (!there) return std::unexpected(there.error());
  const Session& parent = **there;
  const auto depth = json::int_at(*parent.entry(), "spawnDepth").value_or(0) + 1;
  if (depth > context.rules->spawn_depth) {
    return fail_at("", fmt::format("{} is {} deep already; session.spawn.depth is {}", parent.key(), depth - 1,
                                   context.rules->spawn_depth));
  }
  const auto children = state.children(parent.key()).size();
  if (children >= static_cast<std::size_t>(context.rules->spawn_count)) {
    return fail_at("", fmt::format("{} may have no more children; session.spawn.count is {}", parent.key(),
                                   context.rules->spawn_count));
  }
  const bool nested = parent.key().find(":subagent:") != std::string::npos;
  const std::string key =
      fmt::format("{}:subagent:{}", nested ? parent.key() : "agent:" + state.id(), context.ids->uuid());
  if (key.size() > 512) return fail_at("", "the child's key would be longer than 512 bytes");
  json::Edit edit = command.entry;
  if (auto fine = check_entry_edit(edit, Import::no, "/entry"); !fine) return std::unexpected(std::move(fine.error()));
  normalize_entry_edit(edit);
  if (auto fine = normalize_patch(edit, "{}", "/entry", Nested::complete); !fine)
    return std::unexpected(std::move(fine.error()));
  if (!command.label.empty()) edit.put_string("label", command.label);
  if (!command.task.empty()) edit.put_string("task", command.task);
  edit.put_string("spawnedBy", parent.key());
  edit.put_int("spawnDepth", depth);
  auto session = create_session(drafting, key, context.ids->uuid(), std::move(edit), "spawn");
  if (!session) return std::unexpected(std::move(session.error()));
  answer_session(drafting, *session, 201);
  drafting.out.location = fmt::format("/v1/agents/{}/sessions/{}", state.id(), key);
  return std::move(drafting.out);
}

Result<Decision> decide(const AgentState& state, const DeleteTopic& command, const Context& context) {
  Drafting drafting(state, context);
  drafting.out.status = 204;
  const auto there = resolve(state, command.target);
  if (!there) return std::unexpected(there.error());
  Session session = **there;
  const auto* topics = state.topics(session.session_id);
  if (topics == nullptr || !topics->contains(command.topic)) {
    return fail(Code::not_found, fmt::format("{} has no topic {}", session.key(), command.topic));
  }
  const std::string file = AgentState::file_of(session, command.topic);
  json::Edit edit;
  edit.put_int("updatedAt", moved_to(session, context.now));
  std::string data;
  json::ObjectWriter writer(data);
  writer.raw("archivedAs", json_array({archive_name(file, "deleted", context.ids->archive_time(context.now))}));
  json::append_edit(writer, edit);
  writer.close();
  drafting.emit(EventType::topic_deleted, session, data, command.topic);
  return std::move(drafting.out);
}

}  // namespace sessiond
