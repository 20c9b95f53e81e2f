// The state of one agent: its sessions (the SessionIndex it is), where its transcripts end, what is known of its
// archives, its runs and its deliveries. Decisions read it; `apply` (apply.hpp) is the only code that changes sessions.
// Not thread-safe: the ledger keeps it on the loop.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>

#include "daemon/decide/archive_index.hpp"
#include "daemon/decide/delivery_book.hpp"
#include "daemon/decide/early_changes.hpp"
#include "daemon/decide/key_policies.hpp"
#include "daemon/decide/last_used.hpp"
#include "daemon/decide/run_book.hpp"
#include "daemon/decide/session_index.hpp"
#include "daemon/decide/transcript_ends.hpp"
#include "policy/context/view.hpp"

namespace sessiond::decide {

class AgentState : public SessionIndex {
 public:
  explicit AgentState(std::string id) : id_(std::move(id)) {}
  const std::string& id() const { return id_; }

  // The session, and the topic if it is a topic's, that a transcript belongs to.
  struct Owner {
    const Session* session;
    std::optional<std::string> topic;
  };
  std::optional<Owner> owner_of(std::string_view file) const;
  // Tells whether this session may read and write the file as the transcript of one of its topics: false if the file
  // belongs to a session with another session id.
  bool may_use(const Session& session, std::string_view file) const;
  // Names the transcript whose file this is (transcripts/origins.hpp); "": it is no session's.
  std::string transcript_name_of(std::string_view file) const;
  // Returns the runs of a session that work on this transcript, in the form that its order depends on.
  context::OrderAsked order_of(const Session& session, std::string_view file) const;

  TranscriptEnds transcripts;
  ArchiveIndex archives;
  RunBook runs;
  DeliveryBook deliveries;
  LastUsed last_used;
  KeyPolicies policies;
  EarlyChanges early;
  std::uint64_t last_seq = 0;             // journal seq of the last event of this agent
  std::uint64_t last_taken_back = 0;      // journal seq of its last edit or deletion of a message; 0: none since loaded
  std::unordered_set<std::string> dirty;  // keys changed or deleted since the last checkpoint took them
  bool is_dirty() const {
    return !dirty.empty() || runs.unwritten().is_dirty() || deliveries.unwritten().is_dirty() || last_used.is_dirty() ||
           early.is_dirty() || policies.is_dirty();
  }
  // The keys in `dirty` that our own commands changed. A key that is only dirty because a foreign change was merged is
  // not here: the foreign program may change that entry again, or delete it.
  std::unordered_set<std::string> changed_by_us;

 private:
  std::string id_;
};

}  // namespace sessiond::decide
