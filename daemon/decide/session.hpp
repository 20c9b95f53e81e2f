// A session in memory: its entry's bytes and what decisions and lists look at, read out once. The counters that every
// message moves are held beside the bytes and written into them only when somebody needs the bytes, so an append costs
// the same for any entry.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "store/json/raw_json.hpp"
#include "store/sessions/sessions_file.hpp"

namespace sessiond {

class Session {
 public:
  Session(std::string key, RawEntry entry);

  const std::string& key() const { return key_; }
  const RawEntry& entry() const;  // compact JSON object, counters included
  // Sets and removes members; counters alone are cheap.
  void edit(const json::Edit& edit);

  // Read out of the entry; "" and nothing where absent. Legacy names (provider, lastProvider, room) count.
  std::string session_id, session_file, channel, chat_type, label, name, spawned_by;
  std::uint64_t rev = 0;
  std::int64_t created_at = 0, updated_at = 0;
  std::optional<std::int64_t> archived_at, last_interaction_at;
  std::optional<std::int64_t> started_at;  // sessionStartedAt, else createdAt, as the entry has them
  std::optional<std::int64_t> message_count, input_tokens, output_tokens, total_tokens, compaction_count;
  bool ephemeral = false;

  // seq of the last event that touched it (0: none since the agent was loaded); reads wait until it is durable.
  std::uint64_t last_seq = 0;
  std::uint64_t order = 0;       // of creation, within the agent's store
  std::size_t linked_bytes = 0;  // of its entry when it was put into the agent's orders

 private:
  void read_fields();
  bool edit_counter(const json::Edit::Set& member);

  std::string key_;
  mutable RawEntry entry_;
  mutable json::Edit counters_;  // newer than entry_
};

}  // namespace sessiond
