// The sessions of one agent in memory, and the indexes by which they are found and listed.
//
// A session is found by its key, by its session id, by its SDK session id, by its slug, by its parent, and by the name
// of its transcript. Stores that foreign programs wrote break the rules of ours: two sessions may share a session id,
// keys may differ only in case, and parents may form a ring. Where several sessions match, the one that was inserted
// first is returned.
//
// The index owns the sessions. Pointers stay valid until the session is erased or replaced. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/decide/session.hpp"
#include "daemon/decide/string_map.hpp"

namespace sessiond::decide {

// Separates the session id from the topic in the file name of a topic's transcript.
inline constexpr std::string_view topic_mark = "-topic-";

// Orders sessions by updatedAt, then by key.
struct ByUpdated {
  using is_transparent = void;
  using Key = std::pair<std::int64_t, std::string_view>;
  static Key key_of(const Session* session) { return {session->updated_at, session->key()}; }
  bool operator()(const Session* a, const Session* b) const { return key_of(a) < key_of(b); }
  bool operator()(const Session* a, const Key& b) const { return key_of(a) < b; }
  bool operator()(const Key& a, const Session* b) const { return a < key_of(b); }
};

class SessionIndex {
 public:
  std::size_t size() const { return by_key_.size(); }
  // Bytes of all entries. Approximate: counters that changed since an entry was last edited are not included.
  std::uint64_t entry_bytes() const { return entry_bytes_; }

  // Finds a session by its key: exactly, then in the other spelling of dm/direct, then in that which new sessions get.
  // Of several others (store::same_key), the one that was changed last. Null if none.
  const Session* find_key(std::string_view key) const;
  // As find_key, then by session id.
  const Session* find(std::string_view key_or_id) const;
  const Session* find_session_id(std::string_view session_id) const;
  const std::set<Session*, ByUpdated>& by_updated() const { return by_updated_; }
  const std::map<std::string_view, Session*>& by_name() const { return by_name_; }
  // Returns the sessions whose spawnedBy names the session `key`, in any spelling; the oldest first.
  std::vector<const Session*> children(std::string_view key) const;

  // Returns the sessions that have copies of messages which were first written in the session `session_id`.
  std::vector<const Session*> copies(std::string_view session_id) const;

  // Tells whether another session than `key` has this slug.
  bool has_slug(std::string_view slug, std::string_view key) const;

  // By StringHash of sdk_session_id; of_sdk_session finds in it.
  const std::unordered_multimap<std::size_t, Session*>& by_sdk_hash() const { return by_sdk_hash_; }

  // Returns the file name of a session's transcript: its own, or that of a topic.
  static std::string file_of(const Session& session, const std::optional<std::string>& topic);
  // Finds the session whose own transcript (not a topic's) has this file name. Null if none.
  const Session* owner_of_own(std::string_view file) const;
  // Finds a session whose sessionFile has the name of a topic's transcript of this session id. Null if none.
  const Session* owner_of_topic_file(std::string_view session_id) const;

  // Below: for apply and for loading only.
  void reserve(std::size_t sessions);
  // Replaces the session with this key if there is one.
  Session& insert(std::string key, sessions::RawEntry entry);
  // Does nothing if the session is not in the index.
  void erase(const Session& session);
  // Edits a session of this index and moves it to its new place in every order.
  void edit(Session& session, const json::Edit& edit);
  void count(Session& session, const Counted& counted);
  // The same with an edit that was made in a copy of the session.
  void replace(Session& session, Session edited);
  Session* mutable_session(std::string_view key);  // exact key only; null if none

 private:
  void link(Session& session);
  void unlink(Session& session);

  StringMap<std::unique_ptr<Session>> by_key_;
  StringMultimap<Session*> by_session_id_;
  std::unordered_multimap<std::size_t, Session*> by_sdk_hash_;  // by StringHash of sdk_session_id
  StringMultimap<Session*> by_slug_;
  StringMultimap<Session*> by_parent_;                                 // by folded_key(spawnedBy)
  std::set<std::pair<std::string, Session*>, std::less<>> by_origin_;  // by each of copied_from
  std::multimap<std::string, Session*, std::less<>> by_file_;  // by the name of their sessionFile, if they have one
  StringMultimap<Session*> by_folded_;                         // by folded_key(key), where the key is another; few
  std::set<Session*, ByUpdated> by_updated_;
  std::map<std::string_view, Session*> by_name_;
  std::uint64_t next_order_ = 0;
  std::uint64_t entry_bytes_ = 0;
};

// Returns the sessions that are mapped to this session of the SDK: one, or more in a store that a foreign program
// wrote.
std::vector<const Session*> of_sdk_session(const SessionIndex& index, std::string_view id);
// Returns the hashes of all SDK session ids, sorted.
std::vector<std::size_t> sdk_hashes(const SessionIndex& index);

}  // namespace sessiond::decide
