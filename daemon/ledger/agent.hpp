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

Problem degraded_problem(const std::string& agent, std::string_view why);

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
  Agent(std::string name, asio::thread_pool& disk)
      : id(std::move(name)), turn(asio::make_strand(disk.get_executor())) {}

  std::string id;
  // What is done to its sessions.json, one thing at a time. A strand of its own: nobody waits for another agent's disk.
  asio::strand<asio::thread_pool::executor_type> turn;
  std::shared_ptr<AgentState> state{};   // null: not loaded
  std::shared_ptr<SessionsFile> file{};  // on `turn` only
  std::shared_ptr<EntryHistory>
      history{};                   // of the file that has left memory, while somebody may still undo what it wrote
  std::int64_t history_until = 0;  // steady ms
  bool on_disk = false;            // when it was loaded
  bool loading = false;
  bool rebuild = false;  // a batch failed: what is durable beyond the file is in the journal
  bool suspect = false;  // somebody touched its folder
  bool damaged = false;  // its file was, at the last look
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
  std::string trouble{};   // why the last checkpoint failed
  std::string degraded{};  // why its store cannot be used: it alone answers 503, and is looked at again each time
  std::uint64_t loading_bytes = 0;  // of a big store that is being read now
  bool empty = false;               // when it was last in memory it had no sessions

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

// Up to which seq the generations of a store surely hold the journal's events; 0: not known.
struct Ledger::Generations {
  std::uint64_t written = 0;   // the last that we wrote
  std::uint64_t previous = 0;  // what it took the place of
};

// How an agent is to be loaded.
struct Ledger::LoadWish {
  std::shared_ptr<SessionsFile> file{};      // where it was in memory before
  std::shared_ptr<EntryHistory> history{};   // else what is left of it
  std::uint64_t replay_from = 0;             // of the journal; 0: the file has it all
  std::uint64_t archived_from = UINT64_MAX;  // of what is before that, from here on which archives were made
  std::uint64_t known_to = 0;  // the file held everything up to here: that it is gone is damage, if this left sessions
  Generations hold{};
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
