// All that the daemon holds of one agent in memory: its sessions with the orders lists need, and where its transcripts
// end. `apply` (apply.hpp) is the only code that changes sessions.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "daemon/decide/archive_records.hpp"
#include "daemon/decide/session.hpp"
#include "transcripts/id_index.hpp"

namespace sessiond {

// Where a transcript ends, lines that are on their way included.
struct TranscriptEnd {
  std::uint64_t size = 0;
  std::uint64_t count = 0;  // entries: the next one's seq
  bool has_header = false;
  bool ends_in_newline = true;
  std::string last_id;
  std::uint64_t last_seq = 0;             // of the journal: reads wait for it
  std::uint64_t read_size = 0;            // of the file when this was read from it
  std::optional<std::int64_t> started{};  // what its header says; not known when the lines are ours
  std::shared_ptr<IdSet> ids;             // of all its entries; loaded when a client first brings ids of its own
};

struct ByUpdated {
  using is_transparent = void;
  using Key = std::pair<std::int64_t, std::string_view>;
  static Key key_of(const Session* session) { return {session->updated_at, session->key()}; }
  bool operator()(const Session* a, const Session* b) const { return key_of(a) < key_of(b); }
  bool operator()(const Session* a, const Key& b) const { return key_of(a) < b; }
  bool operator()(const Key& a, const Session* b) const { return a < key_of(b); }
};

struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};

class AgentState {
 public:
  explicit AgentState(std::string id) : id_(std::move(id)) {}

  const std::string& id() const { return id_; }
  std::size_t size() const { return by_key_.size(); }
  std::uint64_t entry_bytes() const { return entry_bytes_; }  // of all entries, about: counters move them a little

  // By key (exactly, then in its dm/direct spelling, then case-insensitively), else by session id. Null: none.
  const Session* find(std::string_view key_or_id) const;
  const Session* find_key(std::string_view key) const;
  const std::set<Session*, ByUpdated>& by_updated() const { return by_updated_; }
  const std::map<std::string_view, Session*>& by_name() const { return by_name_; }
  // Those that name the session of this key as their parent, in whichever spelling.
  std::vector<const Session*> children(std::string_view key) const;

  // The base name of a session's transcript, of its own or of a topic.
  static std::string file_of(const Session& session, const std::optional<std::string>& topic);

  // Whose transcript a file is; nothing: nobody's.
  struct Owner {
    const Session* session;
    std::optional<std::string> topic;
  };
  std::optional<Owner> owner_of(std::string_view file) const;
  // May this session read and write the file, as a topic's transcript? Another session's it may not.
  bool may_use(const Session& session, std::string_view file) const;

  // What is known of archived and purged transcripts, the oldest first: of a session id, of a key, of all.
  std::vector<const ArchiveRecord*> archived_of_id(std::string_view session_id) const;
  std::vector<const ArchiveRecord*> archived_of_key(std::string_view key) const;
  using ArchiveOrder = std::tuple<std::int64_t, std::uint64_t, std::string>;  // time, seq, session id
  const std::map<ArchiveOrder, ArchiveRecord>& archived() const { return archived_; }
  // Whether a file that lay in the folder when the agent was loaded bears this session id.
  bool was_found(std::string_view session_id) const { return found_.contains(session_id); }

  const TranscriptEnd* transcript(std::string_view file) const;

  // For apply and for loading only.
  void reserve(std::size_t sessions);
  Session& insert(std::string key, RawEntry entry);
  void erase(const Session& session);
  void edit(Session& session, const json::Edit& edit);  // keeps the orders right
  Session* mutable_session(std::string_view key);
  TranscriptEnd& mutable_transcript(std::string_view file) { return transcripts_[std::string(file)]; }
  void forget_transcript(std::string_view file);
  const std::unordered_map<std::string, TranscriptEnd, StringHash, std::equal_to<>>& transcripts() const {
    return transcripts_;
  }

  // Topics (of the API's `topic`) that a session id has transcripts for.
  std::set<std::string>& topics(std::string_view session_id) { return topics_[std::string(session_id)]; }
  const std::set<std::string>* topics(std::string_view session_id) const;
  void forget_topics(std::string_view session_id);

  void remember(ArchiveRecord record);
  void found(std::string session_id) { found_.insert(std::move(session_id)); }

  std::uint64_t last_seq = 0;             // of the last event that touched the agent
  std::unordered_set<std::string> dirty;  // keys changed (or gone) since the last checkpoint took them
  // Those of `dirty` that a change of our own made so. What we only write back after another program's change is not
  // here: that program may change it again, and delete it.
  std::unordered_set<std::string> changed_by_us;

 private:
  std::string id_;
  std::unordered_map<std::string, std::unique_ptr<Session>, StringHash, std::equal_to<>> by_key_;
  std::unordered_multimap<std::string, Session*, StringHash, std::equal_to<>>
      by_session_id_;  // foreign stores may share one
  std::unordered_multimap<std::string, Session*, StringHash, std::equal_to<>> by_parent_;
  // Those whose entry names the file, by file_of.
  std::unordered_multimap<std::string, Session*, StringHash, std::equal_to<>> by_file_;
  // Those whose key is not lower-case, by the key that would be: a handful, in stores of other programs.
  std::unordered_multimap<std::string, Session*, StringHash, std::equal_to<>> mixed_case_;
  std::set<Session*, ByUpdated> by_updated_;
  std::map<std::string_view, Session*> by_name_;
  std::unordered_map<std::string, TranscriptEnd, StringHash, std::equal_to<>> transcripts_;
  std::unordered_map<std::string, std::set<std::string>, StringHash, std::equal_to<>> topics_;

  std::map<ArchiveOrder, ArchiveRecord> archived_;
  std::unordered_multimap<std::string, const ArchiveRecord*, StringHash, std::equal_to<>> archived_by_id_;
  std::unordered_multimap<std::string, const ArchiveRecord*, StringHash, std::equal_to<>> archived_by_key_;
  std::unordered_set<std::string, StringHash, std::equal_to<>> found_;

  std::uint64_t next_order_ = 0;
  std::uint64_t entry_bytes_ = 0;

  const Session* own_transcript(std::string_view file) const;

  const Session* find_nocase(std::string_view key) const;
  void link(Session& session);
  void unlink(Session& session);
};

}  // namespace sessiond
