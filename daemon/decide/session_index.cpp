#include "daemon/decide/session_index.hpp"

#include <algorithm>
#include <cassert>

#include "store/names.hpp"

namespace sessiond::decide {
namespace {

// Returns, of several sessions with this key in the map, the one that was inserted first. Null if none.
const Session* first_of(const StringMultimap<Session*>& map, std::string_view key) {
  const Session* first = nullptr;
  auto [from, to] = map.equal_range(key);
  for (auto at = from; at != to; ++at) {
    if (first == nullptr || at->second->order < first->order) first = at->second;
  }
  return first;
}

}  // namespace

const Session* SessionIndex::find_key(std::string_view key) const {
  if (const auto found = by_key_.find(key); found != by_key_.end()) return found->second.get();
  if (const auto alias = store::dm_alias(key))
    if (const auto found = by_key_.find(*alias); found != by_key_.end()) return found->second.get();
  const std::string folded = store::folded_key(key);
  if (const auto found = by_key_.find(folded); found != by_key_.end()) return found->second.get();
  const Session* last = nullptr;
  auto [from, to] = by_folded_.equal_range(folded);
  for (auto at = from; at != to; ++at)
    if (last == nullptr || ByUpdated()(last, at->second)) last = at->second;
  return last;
}

const Session* SessionIndex::find(std::string_view key_or_id) const {
  if (const Session* session = find_key(key_or_id)) return session;
  return find_session_id(key_or_id);
}

const Session* SessionIndex::find_session_id(std::string_view session_id) const {
  return first_of(by_session_id_, session_id);
}

bool SessionIndex::has_slug(std::string_view slug, std::string_view key) const {
  const auto [from, to] = by_slug_.equal_range(slug);
  return std::any_of(from, to, [key](const auto& one) { return one.second->key() != key; });
}

std::vector<const Session*> of_sdk_session(const SessionIndex& index, std::string_view id) {
  std::vector<const Session*> out;
  const auto [from, to] = index.by_sdk_hash().equal_range(StringHash()(id));
  for (auto at = from; at != to; ++at) {
    if (at->second->sdk_session_id == id) out.push_back(at->second);
  }
  return out;
}

std::vector<std::size_t> sdk_hashes(const SessionIndex& index) {
  std::vector<std::size_t> out;
  out.reserve(index.by_sdk_hash().size());
  for (const auto& [hash, session] : index.by_sdk_hash()) out.push_back(hash);
  std::ranges::sort(out);
  return out;
}

std::vector<const Session*> SessionIndex::children(std::string_view key) const {
  std::vector<const Session*> out;
  auto [from, to] = by_parent_.equal_range(store::folded_key(key));
  for (auto at = from; at != to; ++at) {
    // Foreign stores may hold keys that differ only in case: the child's spelling decides which of them is its parent.
    const Session* parent = find_key(at->second->spawned_by);
    if (parent == nullptr || parent->key() == key) out.push_back(at->second);
  }
  std::ranges::sort(out, {},
                    [](const Session* session) { return ByUpdated::Key(session->created_at, session->key()); });
  return out;
}

std::vector<const Session*> SessionIndex::copies(std::string_view session_id) const {
  std::vector<const Session*> out;
  for (auto at = by_origin_.lower_bound({std::string(session_id), nullptr});
       at != by_origin_.end() && at->first == session_id; ++at)
    out.push_back(at->second);
  return out;
}

namespace {

// The file that the entry names as its transcript, whether or not it may be that.
std::string_view named_file(const Session& session) {
  return std::string_view(session.session_file).substr(session.session_file.find_last_of('/') + 1);
}

}  // namespace

std::string SessionIndex::file_of(const Session& session, const std::optional<std::string>& topic) {
  const std::string own = session.own_topic();
  if (topic && *topic != own) return store::transcript_file(session.session_id, *topic);
  if (!session.session_file.empty()) {
    const std::string base(named_file(session));
    if (base.ends_with(".jsonl") &&
        (store::check_session_id(base) || store::topic_of_file(session.session_id, base) == own))
      return base;
  }
  return store::transcript_file(session.session_id, own);
}

// The name can come from the session id, from the id and the topic in the key, or from sessionFile.
const Session* SessionIndex::owner_of_own(std::string_view file) const {
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

Session* SessionIndex::mutable_session(std::string_view key) {
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? nullptr : found->second.get();
}

void SessionIndex::reserve(std::size_t sessions) {
  by_key_.reserve(sessions);
  by_session_id_.reserve(sessions);
}

Session& SessionIndex::insert(std::string key, sessions::RawEntry entry) {
  if (Session* old = mutable_session(key)) erase(*old);
  auto session = std::make_unique<Session>(std::move(key), std::move(entry));
  Session& inserted = *session;
  inserted.order = next_order_++;
  by_key_.emplace(inserted.key(), std::move(session));
  by_name_.emplace(inserted.key(), &inserted);
  if (std::string folded = store::folded_key(inserted.key()); folded != inserted.key())
    by_folded_.emplace(std::move(folded), &inserted);
  link(inserted);
  return inserted;
}

void SessionIndex::erase(const Session& session) {
  const auto found = by_key_.find(session.key());
  if (found == by_key_.end()) return;
  Session& gone = *found->second;
  unlink(gone);
  by_name_.erase(gone.key());
  erase_pair(by_folded_, store::folded_key(gone.key()), &gone);
  by_key_.erase(found);
}

// Only the order by updatedAt depends on these members.
void SessionIndex::count(Session& session, const Counted& counted) {
  assert(mutable_session(session.key()) == &session);
  const auto place = by_updated_.find(&session);  // while it has the time by which it is found
  session.count(counted);
  by_updated_.insert(by_updated_.extract(place));
}

void SessionIndex::edit(Session& session, const json::Edit& edit) {
  assert(mutable_session(session.key()) == &session);
  if (const auto counted = Counted::only(edit)) return count(session, *counted);
  unlink(session);
  session.edit(edit);
  link(session);
}

void SessionIndex::replace(Session& session, Session edited) {
  assert(&session.key() == &edited.key());  // by_name_ views it
  unlink(session);
  session = std::move(edited);
  link(session);
}

const Session* SessionIndex::owner_of_topic_file(std::string_view session_id) const {
  const std::string beginning = std::string(session_id).append(topic_mark);
  const auto found = by_file_.lower_bound(beginning);
  return found != by_file_.end() && found->first.starts_with(beginning) ? found->second : nullptr;
}

void SessionIndex::link(Session& session) {
  session.linked_bytes = session.entry()->size();
  entry_bytes_ += session.linked_bytes;
  by_updated_.insert(&session);
  if (!session.session_id.empty()) by_session_id_.emplace(session.session_id, &session);
  if (!session.sdk_session_id.empty()) by_sdk_hash_.emplace(StringHash()(session.sdk_session_id), &session);
  if (!session.slug.empty()) by_slug_.emplace(session.slug, &session);
  if (!session.spawned_by.empty()) by_parent_.emplace(store::folded_key(session.spawned_by), &session);
  for (const std::string& origin : session.copied_from) by_origin_.emplace(origin, &session);
  if (!session.session_file.empty()) by_file_.emplace(named_file(session), &session);
}

void SessionIndex::unlink(Session& session) {
  entry_bytes_ -= session.linked_bytes;
  by_updated_.erase(&session);
  if (!session.session_id.empty()) erase_pair(by_session_id_, session.session_id, &session);
  if (!session.sdk_session_id.empty()) erase_pair(by_sdk_hash_, StringHash()(session.sdk_session_id), &session);
  if (!session.slug.empty()) erase_pair(by_slug_, session.slug, &session);
  if (!session.spawned_by.empty()) erase_pair(by_parent_, store::folded_key(session.spawned_by), &session);
  for (const std::string& origin : session.copied_from) by_origin_.erase({origin, &session});
  if (!session.session_file.empty()) erase_pair(by_file_, std::string(named_file(session)), &session);
}

}  // namespace sessiond::decide
