// Private to the ledger: one agent's slot, and what a commit leaves in flight.
#pragma once

#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/ledger/ledger.hpp"

namespace sessiond {

std::int64_t wall_ms();    // ms since the epoch
std::int64_t steady_ms();  // monotonic

// Ends a coroutine without which the daemon would go on as if it worked: an exception in it is told and ends the
// process.
std::function<void(std::exception_ptr)> or_terminate(std::string_view what);

constexpr std::int64_t transcript_lock_timeout_ms = 60'000;  // FORMATS §3

// Counts a request that waits for a lock, while it lives.
class LockWaiter {
 public:
  LockWaiter(std::map<std::string, int>& waiters, std::string target) : waiters_(waiters), target_(std::move(target)) {
    ++waiters_[target_];
  }
  LockWaiter(const LockWaiter&) = delete;
  LockWaiter& operator=(const LockWaiter&) = delete;
  ~LockWaiter() {
    if (--waiters_[target_] == 0) waiters_.erase(target_);
  }

 private:
  std::map<std::string, int>& waiters_;
  std::string target_;
};

// A key that the file has not as it is now, and where among the others it is written.
struct DirtyEntry {
  std::uint64_t order = 0;  // deletions (0), then entries, the oldest first
  NamedEntry entry;
};
DirtyEntry dirty_entry(AgentState& state, const std::string& key);
std::vector<NamedEntry> in_order(std::vector<DirtyEntry> dirty);

struct Ledger::Agent {
  std::string id{};
  std::shared_ptr<AgentState> state{};   // null: not loaded
  std::shared_ptr<SessionsFile> file{};  // stores_ strand only
  std::shared_ptr<EntryHistory>
      history{};                   // of the file that has left memory, while somebody may still undo what it wrote
  std::int64_t history_until = 0;  // steady ms
  bool on_disk = false;            // when it was loaded
  bool loading = false;
  bool rebuild = false;  // a batch failed: what is durable beyond the file is in the journal
  bool suspect = false;  // somebody touched its folder
  bool looking = false;
  bool following = false;              // its transcripts
  std::set<std::string> publishing{};  // transcripts whose foreign lines are being published
  bool watched = false;
  bool checkpointing = false;
  Waiters waiting{};                 // for loading, looking, following or a checkpoint to end
  std::int64_t touched = 0;          // steady ms
  std::int64_t looked = 0;           // steady ms of the last stat
  std::int64_t dirty_since = 0;      // steady ms; 0: clean
  std::int64_t next_checkpoint = 0;  // steady ms, by the duty cycle
  std::int64_t lock_wanted = 0;    // steady ms since when another program's lock keeps a checkpoint back; 0: none does
  std::uint64_t file_seq = 0;      // sessions.json holds everything up to here
  std::uint64_t lines_seq = 0;     // its transcripts hold everything up to here
  std::uint64_t previous_seq = 0;  // and the generation before it, everything up to here
  std::uint64_t written_seq = 0;   // the last generation that we wrote has everything up to here; 0: not known
  std::uint64_t bytes = 0;
  std::string trouble{};  // why the last checkpoint failed

  // In memory only because somebody wanted to make it, and then did not.
  bool nobody() const { return state && !on_disk && state->size() == 0 && state->last_seq == 0; }
};

struct Ledger::InFlight {
  std::uint64_t last = 0;
  std::string agent;
  std::vector<Event> events;
  std::vector<Answer> answers;
  bool archives = false;  // renames files
};

// What loading an agent brought.
struct Ledger::Loaded {
  std::shared_ptr<AgentState> state;
  std::shared_ptr<SessionsFile> file;
  std::vector<std::string> repairs;
  std::vector<Eviction> evictions;
  std::optional<ForeignChange> foreign;
  bool exists = false;  // on disk
};

}  // namespace sessiond
