#include "daemon/decide/free_id.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <set>

#include "store/limits.hpp"
#include "store/names.hpp"
#include "store/try.hpp"

namespace sessiond::decide {

std::string key_of_id(const AgentState& state, std::string_view id) {
  return fmt::format("agent:{}:session:{}", state.id(), store::lower(id));
}

namespace {

// Finds the session that makes this id taken. Null if none.
const Session* bearer(const AgentState& state, const std::string& id) {
  if (const Session* session = state.find(id)) return session;
  if (const Session* session = state.find_key(key_of_id(state, id))) return session;
  if (const auto owner = state.owner_of(store::transcript_file(id, ""))) return owner->session;
  return state.owner_of_topic_file(id);
}

const AgentState& whole_state(const DecisionBuilder& builder) {
  const AgentState* all = builder.context().sight.all;
  return all != nullptr ? *all : builder.state();
}

bool is_another(const Session* session, const Session* self) {
  return session != nullptr && (self == nullptr || session->key() != self->key());
}

// Tells whether the requester sees all archives of the id.
bool sees_archives(const AgentState& state, const Context& context, const std::string& id, std::string_view key,
                   const std::vector<std::string>& on_disk) {
  if (context.sight.whole_agent) return true;
  // All archives of one event have the same ending, and no two events share one. An event names only its first
  // archives.
  const auto ending = [](std::string_view name) { return name.substr(std::min(name.rfind(".jsonl."), name.size())); };
  std::set<std::string_view> seen;
  for (const ArchiveRecord* record : state.archives.of_id(id)) {
    if (record->key != key && (record->key.empty() || !context.sight.sees(record->key, record->audience())))
      return false;
    for (const std::string& name : record->archived_as) seen.insert(ending(name));
  }
  return std::ranges::all_of(on_disk, [&](const std::string& name) { return seen.contains(ending(name)); });
}

}  // namespace

std::string fresh_session_id(const AgentState& state, const Context& context, IdKind kind) {
  const auto known = [&](const std::string& id) {
    return bearer(state, id) != nullptr || state.archives.was_found(id) || !state.archives.of_id(id).empty();
  };
  std::string id;
  do {
    id = kind == IdKind::timestamp ? context.ids->timestamp_id(context.now) : context.ids->uuid();
  } while (known(id));
  return id;
}

Result<void> claim_session_id(DecisionBuilder& builder, const std::string& id, std::string_view key,
                              const Session* self) {
  const Context& context = builder.context();
  const AgentState& state = whole_state(builder);
  if (self != nullptr && self->session_id == id) return {};
  TRY(store::check_new_session_id(id));
  const auto taken = [&id] { return fail(Code::session_exists, fmt::format("the session id {} is taken", id)); };
  if (is_another(bearer(state, id), self)) return taken();
  const auto records = state.archives.of_id(id);
  const auto known_purge = [&](const ArchiveRecord* record) {
    return record->purged && record->seq >= context.oldest_seq;
  };
  const auto of_another = [&](const ArchiveRecord* record) {
    const bool is_seen = context.sight.whole_agent || context.sight.sees(record->key, record->audience());
    return known_purge(record) && (record->key != key || !is_seen);
  };
  if (std::ranges::any_of(records, of_another)) return taken();
  // Foreign programs make files that are not in memory.
  const FilesOfId* files = nullptr;
  if (context.on_disk != nullptr) {
    if (const auto found = context.on_disk->find(id); found != context.on_disk->end()) files = &found->second;
  }
  if (files == nullptr) {
    builder.out.need = Need{Need::What::id_files, id};
    return {};
  }
  const bool unowned = files->transcripts && bearer(state, id) == nullptr;
  if (unowned && !context.sight.whole_agent) return taken();
  if (files->changes && std::ranges::any_of(records, known_purge)) return taken();
  // Whoever gets the id sees its log, so no other key gets it.
  const auto of_other = [key](const ArchiveRecord* record) { return record->key != key; };
  if (files->log && (records.empty() || std::ranges::any_of(records, of_other))) return taken();
  if (!sees_archives(state, context, id, key, files->archives)) return taken();
  return {};
}

Result<void> claim_sdk_session(DecisionBuilder& builder, const Session& session, std::string_view had) {
  const std::string& id = session.sdk_session_id;
  if (id.empty() || id == had) return {};
  const auto is_other = [&session](const Session* other) { return other->key() != session.key(); };
  std::optional<bool> taken = std::ranges::any_of(of_sdk_session(whole_state(builder), id), is_other);
  if (!*taken && builder.context().sdk_id_elsewhere) taken = builder.context().sdk_id_elsewhere(id);
  if (!taken) {
    builder.out.need = Need{Need::What::sdk_session, id};
  } else if (*taken) {
    return fail(Code::sdk_session_taken, "another session has this SDK session id");
  }
  return {};
}

std::string earlier_sessions(const DecisionBuilder& builder, std::string_view key, std::string_view except) {
  const Context& context = builder.context();
  const AgentState& state = whole_state(builder);
  std::string list;
  std::size_t count = 0;
  for (const ArchiveRecord* record : state.archives.of_key(key) | std::views::reverse) {
    if (record->purged || record->topic || record->session_id == except) continue;
    if (!context.sight.whole_agent && !context.sight.sees(record->key, record->audience())) continue;
    const std::string one = history_json(*record);
    if (count++ == limits::previous_sessions || list.size() + one.size() > limits::previous_bytes) break;
    list.append(list.empty() ? "[" : ",").append(one);
  }
  return list.empty() ? list : list + "]";
}

}  // namespace sessiond::decide
