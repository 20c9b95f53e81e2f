#include "daemon/ledger/agent_state.hpp"

#include <algorithm>

#include "store/names.hpp"

namespace sessiond {
namespace {

template <class Map>
void erase_pair(Map& map, std::string_view key, const Session* session) {
  auto [from, to] = map.equal_range(key);
  for (auto at = from; at != to; ++at) {
    if (at->second == session) {
      map.erase(at);
      return;
    }
  }
}

// Of several the one that was there first.
template <class Map>
const Session* first_of(const Map& map, std::string_view key) {
  const Session* first = nullptr;
  auto [from, to] = map.equal_range(key);
  for (auto at = from; at != to; ++at) {
    if (first == nullptr || at->second->order < first->order) first = at->second;
  }
  return first;
}

}  // namespace

const Session* AgentState::find_key(std::string_view key) const {
  if (const auto found = by_key_.find(key); found != by_key_.end()) return found->second.get();
  const auto alias = dm_alias(key);
  if (alias) {
    if (const auto found = by_key_.find(*alias); found != by_key_.end()) return found->second.get();
  }
  if (const Session* session = find_nocase(lower(key))) return session;
  return alias ? find_nocase(lower(*alias)) : nullptr;
}

// Of several spellings the one that was there first.
const Session* AgentState::find_nocase(std::string_view lower_key) const {
  const Session* mixed = first_of(mixed_case_, lower_key);
  const auto found = by_key_.find(lower_key);
  if (found == by_key_.end() || (mixed != nullptr && mixed->order < found->second->order)) return mixed;
  return found->second.get();
}

const Session* AgentState::find(std::string_view key_or_id) const {
  if (const Session* session = find_key(key_or_id)) return session;
  return first_of(by_session_id_, key_or_id);
}

std::vector<const Session*> AgentState::children(std::string_view key) const {
  std::vector<const Session*> out;
  auto [from, to] = by_parent_.equal_range(key);
  for (auto at = from; at != to; ++at) out.push_back(at->second);
  std::ranges::sort(out, {},
                    [](const Session* session) { return ByUpdated::Place(session->created_at, session->key()); });
  return out;
}

std::string AgentState::file_of(const Session& session, const std::optional<std::string>& topic) {
  const std::string_view own = parse_key(session.key()).topic;
  if (topic && *topic != own) return transcript_file(session.session_id, *topic);
  if (!session.session_file.empty()) {
    const std::string base = session.session_file.substr(session.session_file.find_last_of('/') + 1);
    if (base.ends_with(".jsonl") && check_session_id(base)) return base;
  }
  return transcript_file(session.session_id, own);
}

std::optional<AgentState::Owner> AgentState::owner_of(std::string_view file) const {
  const std::size_t mark = file.find("-topic-");
  const std::string_view id = file.substr(0, std::min(mark, file.rfind(".jsonl")));
  if (const Session* session = first_of(by_session_id_, id)) {
    if (file_of(*session, {}) == file) return Owner{session, {}};
    auto topic = topic_of_file(id, file);
    if (topic && file_of(*session, topic) == file) return Owner{session, std::move(topic)};
  }
  if (const Session* session = first_of(by_file_, file)) return Owner{session, {}};
  return {};
}

const TranscriptEnd* AgentState::transcript(std::string_view file) const {
  const auto found = transcripts_.find(file);
  return found == transcripts_.end() ? nullptr : &found->second;
}

const std::set<std::string>* AgentState::topics(std::string_view session_id) const {
  const auto found = topics_.find(session_id);
  return found == topics_.end() ? nullptr : &found->second;
}

void AgentState::forget_topics(std::string_view session_id) {
  if (const auto found = topics_.find(session_id); found != topics_.end()) topics_.erase(found);
}

void AgentState::forget_transcript(std::string_view file) {
  if (const auto found = transcripts_.find(file); found != transcripts_.end()) transcripts_.erase(found);
}

Session* AgentState::mutable_session(std::string_view key) {
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? nullptr : found->second.get();
}

void AgentState::reserve(std::size_t sessions) {
  by_key_.reserve(sessions);
  by_session_id_.reserve(sessions);
}

Session& AgentState::insert(std::string key, RawEntry entry) {
  if (Session* old = mutable_session(key)) erase(*old);
  auto session = std::make_unique<Session>(std::move(key), std::move(entry));
  Session& inserted = *session;
  inserted.order = next_order_++;
  by_key_.emplace(inserted.key(), std::move(session));
  by_name_.emplace(inserted.key(), &inserted);
  if (std::string small = lower(inserted.key()); small != inserted.key())
    mixed_case_.emplace(std::move(small), &inserted);
  link(inserted);
  return inserted;
}

void AgentState::erase(const Session& session) {
  const auto found = by_key_.find(session.key());
  if (found == by_key_.end()) return;
  Session& gone = *found->second;
  unlink(gone);
  by_name_.erase(gone.key());
  erase_pair(mixed_case_, lower(gone.key()), &gone);
  by_key_.erase(found);
}

void AgentState::edit(Session& session, const json::Edit& edit) {
  if (edit.unset.empty() && std::ranges::all_of(edit.set, [](const auto& member) {
        return member.name == "updatedAt" || member.name == "lastInteractionAt" || member.name == "messageCount" ||
               member.name.ends_with("Tokens") || member.name == "compactionCount";
      })) {
    auto node = by_updated_.extract(&session);  // nothing else that is ordered can change
    session.edit(edit);
    by_updated_.insert(std::move(node));
    return;
  }
  unlink(session);
  session.edit(edit);
  link(session);
}

void AgentState::link(Session& session) {
  by_updated_.insert(&session);
  if (!session.session_id.empty()) by_session_id_.emplace(session.session_id, &session);
  if (!session.spawned_by.empty()) by_parent_.emplace(session.spawned_by, &session);
  if (!session.session_file.empty()) by_file_.emplace(file_of(session, {}), &session);
}

void AgentState::unlink(Session& session) {
  by_updated_.erase(&session);
  if (!session.session_id.empty()) erase_pair(by_session_id_, session.session_id, &session);
  if (!session.spawned_by.empty()) erase_pair(by_parent_, session.spawned_by, &session);
  if (!session.session_file.empty()) erase_pair(by_file_, file_of(session, {}), &session);
}

}  // namespace sessiond
