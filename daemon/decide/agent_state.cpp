#include "daemon/decide/agent_state.hpp"

#include <algorithm>

#include "store/names.hpp"

namespace sessiond {
namespace {

constexpr std::string_view topic_mark = "-topic-";

template <class Map, class Value>
void erase_pair(Map& map, std::string_view key, const Value* value) {
  auto [from, to] = map.equal_range(key);
  for (auto at = from; at != to; ++at) {
    if (at->second == value) {
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
  if (const Session* session = find_nocase(key)) return session;
  return alias ? find_nocase(*alias) : nullptr;
}

// Of several spellings the one that was there first.
const Session* AgentState::find_nocase(std::string_view key) const {
  const std::string small = lower(key);
  const Session* first = nullptr;
  const auto take = [&](const Session* session) {
    if ((first == nullptr || session->order < first->order) && same_key(session->key(), key)) first = session;
  };
  auto [from, to] = mixed_case_.equal_range(small);
  for (auto at = from; at != to; ++at) take(at->second);
  if (const auto found = by_key_.find(small); found != by_key_.end()) take(found->second.get());
  return first;
}

const Session* AgentState::find(std::string_view key_or_id) const {
  if (const Session* session = find_key(key_or_id)) return session;
  return first_of(by_session_id_, key_or_id);
}

std::vector<const Session*> AgentState::children(std::string_view key) const {
  std::vector<const Session*> out;
  auto [from, to] = by_parent_.equal_range(folded_key(key));
  for (auto at = from; at != to; ++at) {
    // Foreign stores may have keys that differ only in case.
    const Session* parent = find_key(at->second->spawned_by);
    if (parent == nullptr || parent->key() == key) out.push_back(at->second);
  }
  std::ranges::sort(out, {},
                    [](const Session* session) { return ByUpdated::Key(session->created_at, session->key()); });
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

// A session's own transcript, by its id, by id and the topic in its key, or by its sessionFile.
const Session* AgentState::own_transcript(std::string_view file) const {
  const Session* first = nullptr;
  const auto take = [&](auto range) {
    for (auto at = range.first; at != range.second; ++at) {
      if ((first == nullptr || at->second->order < first->order) && file_of(*at->second, {}) == file)
        first = at->second;
    }
  };
  const std::string_view stem = file.substr(0, file.rfind(".jsonl"));
  take(by_session_id_.equal_range(stem));
  for (std::size_t at = stem.find(topic_mark); at != std::string_view::npos; at = stem.find(topic_mark, at + 1))
    take(by_session_id_.equal_range(stem.substr(0, at)));
  take(by_file_.equal_range(file));
  return first;
}

std::optional<AgentState::Owner> AgentState::owner_of(std::string_view file) const {
  if (const Session* session = own_transcript(file)) return Owner{session, {}};
  for (std::size_t at = file.find(topic_mark); at != std::string_view::npos; at = file.find(topic_mark, at + 1)) {
    const std::string_view id = file.substr(0, at);
    const Session* session = first_of(by_session_id_, id);
    auto topic = topic_of_file(id, file);
    if (session != nullptr && topic && file_of(*session, topic) == file) return Owner{session, std::move(topic)};
  }
  return {};
}

bool AgentState::may_use(const Session& session, std::string_view file) const {
  const auto owner = owner_of(file);
  return !owner || owner->session->key() == session.key() || owner->session->session_id == session.session_id;
}

namespace {

std::vector<const ArchiveRecord*> sorted_records(auto range) {
  std::vector<const ArchiveRecord*> out;
  for (auto at = range.first; at != range.second; ++at) out.push_back(at->second);
  std::ranges::sort(out, {}, [](const ArchiveRecord* record) { return std::pair(record->time, record->seq); });
  return out;
}

}  // namespace

std::vector<const ArchiveRecord*> AgentState::archived_of_id(std::string_view session_id) const {
  return sorted_records(archived_by_id_.equal_range(session_id));
}

std::vector<const ArchiveRecord*> AgentState::archived_of_key(std::string_view key) const {
  return sorted_records(archived_by_key_.equal_range(key));
}

// If a directory listing already added these archives without an event, the event's record replaces that one.
void AgentState::remember(ArchiveRecord record) {
  if (record.seq != 0) {
    for (const ArchiveRecord* known : archived_of_id(record.session_id)) {
      const auto is_of_record = [&record](const std::string& name) {
        return std::ranges::find(record.archived_as, name) != record.archived_as.end();
      };
      if (known->seq != 0 || std::ranges::none_of(known->archived_as, is_of_record)) continue;
      erase_pair(archived_by_id_, known->session_id, known);
      archived_.erase(archived_.find({known->time, known->seq, known->session_id}));
    }
  }
  const auto [at, added] = archived_.try_emplace({record.time, record.seq, record.session_id}, std::move(record));
  if (!added && at->second.seq == 0) std::ranges::copy(record.archived_as, std::back_inserter(at->second.archived_as));
  if (!added) return;
  const ArchiveRecord& kept = at->second;
  archived_by_id_.emplace(kept.session_id, &kept);
  if (!kept.key.empty()) archived_by_key_.emplace(kept.key, &kept);
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
  session.linked_bytes = session.entry()->size();
  entry_bytes_ += session.linked_bytes;
  by_updated_.insert(&session);
  if (!session.session_id.empty()) by_session_id_.emplace(session.session_id, &session);
  if (!session.spawned_by.empty()) by_parent_.emplace(folded_key(session.spawned_by), &session);
  if (!session.session_file.empty()) by_file_.emplace(file_of(session, {}), &session);
}

void AgentState::unlink(Session& session) {
  entry_bytes_ -= session.linked_bytes;
  by_updated_.erase(&session);
  if (!session.session_id.empty()) erase_pair(by_session_id_, session.session_id, &session);
  if (!session.spawned_by.empty()) erase_pair(by_parent_, folded_key(session.spawned_by), &session);
  if (!session.session_file.empty()) erase_pair(by_file_, file_of(session, {}), &session);
}

}  // namespace sessiond
