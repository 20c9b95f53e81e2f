#include "daemon/ledger/external.hpp"

#include "store/raw_json.hpp"

namespace sessiond {
namespace {

void create(Drafting& drafting, const std::string& key, const RawEntry& entry) {
  std::string data;
  json::ObjectWriter writer(data);
  writer.raw("entry", *entry);
  writer.string("reason", "external");
  writer.close();
  drafting.emit(EventType::session_created, Session(key, entry), data);
}

// A new session id is a reset that the other program made; readers of the transcript must know.
void update(Drafting& drafting, const Session& ours, const json::Edit& edit) {
  Session session = ours;
  Session after = ours;
  after.edit(edit);
  if (after.session_id == ours.session_id) return drafting.update(session, edit);
  drafting.update(session, edit, EventType::session_reset,
                  "\"previousSessionId\":" + json::quote(ours.session_id) + R"(,"archivedAs":[],"reason":"external")");
}

}  // namespace

Decision decide_external(const AgentState& state, const ForeignChange& change, const Context& context, bool at_load) {
  Drafting drafting(state, context);
  std::string keys = "[";
  const auto name = [&keys](const std::string& key) {
    if (keys.size() > 1) keys += ',';
    json::append_quoted(keys, key);
  };
  for (const NamedEntry& entry : change.created) {
    if (!entry.entry || json::kind(*entry.entry) != json::Kind::object) continue;
    const Session* ours = state.find_key(entry.key);
    if (ours == nullptr || ours->key() != entry.key) {
      create(drafting, entry.key, entry.entry);
    } else if (const json::Edit edit = merge_entry("{}", *ours->entry(), *entry.entry); !edit.empty()) {
      update(drafting, *ours, edit);
    }
    name(entry.key);
  }
  for (const auto& entry : change.updated) {
    const Session* ours = state.find_key(entry.key);
    if (ours == nullptr || ours->key() != entry.key)
      continue;  // we deleted it: the deletion is newer than what they saw
    const json::Edit edit = merge_entry(*entry.base, *ours->entry(), *entry.theirs);
    if (!edit.empty()) update(drafting, *ours, edit);
    name(entry.key);
  }
  for (const std::string& key : change.deleted) {
    const Session* ours = state.find_key(key);
    if (state.dirty.contains(key) || (ours == nullptr && !at_load) || (ours != nullptr && ours->key() != key)) continue;
    const Session gone = ours != nullptr ? *ours : Session(key, std::make_shared<const std::string>("{}"));
    drafting.emit(EventType::session_deleted, gone, R"({"archivedAs":[],"purged":false})");
    name(key);
  }
  if (!drafting.out.events.empty()) {
    std::string data;
    json::ObjectWriter writer(data);
    writer.raw("changed", keys + "]");
    writer.boolean("resync", true);
    writer.close();
    drafting.out.events.push_back(make_event({.seq = drafting.next_seq(),
                                              .time = context.now,
                                              .type = EventType::store_external_change,
                                              .agent = state.id(),
                                              .actor = std::string(context.actor),
                                              .source = std::string(context.source)},
                                             data));
  }
  return std::move(drafting.out);
}

}  // namespace sessiond
