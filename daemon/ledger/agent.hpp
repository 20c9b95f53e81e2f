// One agent as the ledger has it: its state, where that came from, and how far its files are. Thread: the loop, except
// where a member says otherwise.
#pragma once

#include <boost/asio/strand.hpp>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/decide/agent_state.hpp"
#include "daemon/ledger/book_files.hpp"
#include "daemon/ledger/checkpoint_file.hpp"
#include "daemon/ledger/env.hpp"
#include "daemon/runtime/waiters.hpp"
#include "store/sessions/sessions_file.hpp"

namespace sessiond::ledger {

// Returns whether a problem with this code says that one agent cannot be served now. Others can.
inline bool is_of_one_agent(Code code) { return code == Code::degraded || code == Code::starting; }
Problem degraded_problem(const std::string& agent, std::string_view why);
struct Agent;
void note_usable(Agent& agent);  // its store can be used again

// The one thing that is done with an agent's sessions.json at a time, so that the file is never written before the
// changes of foreign programs are merged.
enum class Turn : std::uint8_t { none, loading, looking, checkpointing };

// Kept of an agent that has left memory.
struct LeftMemory {
  std::shared_ptr<sessions::EntryHistory> history{};  // of its file: a foreign program may still undo our last writes
  std::int64_t history_until = 0;                     // steady ms
  // decide::sdk_hashes of its sessions. Nothing: not known, or it is in memory.
  std::optional<std::vector<std::size_t>> sdk_hashes{};
  std::uint64_t times = 0;  // how often it has left
};

// When an agent's sessions.json is to be written again, and what keeps that back.
struct CheckpointDuty {
  std::int64_t dirty_since = 0;    // steady ms of the oldest change that the file does not hold; 0: clean
  std::int64_t next = 0;           // steady ms, by the duty cycle
  std::int64_t lock_wanted = 0;    // steady ms since when a foreign lock keeps it back; 0: none does
  std::string trouble{};           // why the last one failed
  std::int64_t rewrite_pause = 0;  // until a book's log is written anew, which has failed; it doubles. 0: it has not

  std::int64_t lag_ms() const { return dirty_since == 0 ? 0 : store::steady_ms() - dirty_since; }
  bool is_held_back() const { return lock_wanted != 0 || !trouble.empty(); }
  void succeeded() {
    lock_wanted = 0;
    trouble.clear();
  }
};

// The content of the agent's file last_session.
struct LastSessionFile {
  std::optional<std::uint64_t> looked_at{};  // the agent's last_seq when the content was last right
  std::optional<std::string> written{};      // the session id in it; nothing: not known
};

// How foreign changes in an agent's folder are followed.
struct Following {
  bool watched = false;  // by inotify
  bool suspect = false;  // a program touched the folder since the last look
  bool active = false;   // its transcripts are being looked at
  // Steady ms at which its store is to be looked at again, because a foreign program may be writing it in place; 0:
  // not.
  std::int64_t look_at = 0;
  bool looking_again = false;          // a coroutine does that
  std::set<std::string> publishing{};  // transcripts whose foreign lines are being published
  std::set<std::string> migrating{};   // transcripts that are being migrated: their ends are not read meanwhile
};

// A transcript that a session should have: its own, which was not there when the agent was loaded though it has
// messages, or that of a topic or a stream, which foreign programs have removed (transcripts/known_ends.hpp).
struct MissingTranscript {
  std::filesystem::path path;
  std::string key;
  std::int64_t messages = 0;           // of its own transcript
  std::optional<std::string> topic{};  // nothing: it is its own
};

struct Agent : std::enable_shared_from_this<Agent> {
  Agent(std::string name, asio::thread_pool& disk)
      : id(std::move(name)), strand(asio::make_strand(disk.get_executor())) {}

  std::string id;
  // Runs the disk work on its sessions.json. A strand of its own, so that no agent waits for another agent's disk. Not
  // an OnStrand<SessionsFile>: the strand also works on the file of an agent that is not in memory.
  asio::strand<asio::thread_pool::executor_type> strand;
  std::shared_ptr<decide::AgentState> state{};     // null: not loaded
  std::shared_ptr<sessions::SessionsFile> file{};  // null: not in memory. Its calls block: they run on `strand`
  std::shared_ptr<BookLogs> logs{};                // as `file`: null when not in memory, and its calls block
  LeftMemory left{};
  bool on_disk = false;  // when it was loaded
  Turn turn = Turn::none;
  bool gone = false;         // its folder was, at the start: it is not made again
  bool rebuild = false;      // a batch failed: what is durable beyond the file is in the journal
  bool lent = false;         // a client has the lock of its file (lent_locks.hpp): it is not read or written
  bool empty = false;        // when it was last in memory it had no sessions
  std::int64_t touched = 0;  // steady ms of the last use
  std::int64_t looked = 0;   // steady ms of the last look at its file
  std::uint64_t bytes = 0;
  std::uint64_t loading_bytes = 0;  // of a big store that is being read now
  // How long its file has not been whole; handed from one try to load it to the next. Null: not tried yet.
  std::shared_ptr<sessions::Unfinished> unfinished{};
  std::string starting{};                    // why loading waits: a foreign program may be writing its file in place
  std::vector<MissingTranscript> missing{};  // transcripts of sessions
  std::vector<MissingTranscript> missing_topics{};  // those of topics and streams
  std::string degraded{};  // why its store cannot be used: it alone answers 503, and is looked at again each time
  FilesReached reached{};
  CheckpointDuty checkpoint{};
  LastSessionFile last_session{};
  Following following{};
  runtime::Waiters waiting{};  // for a turn, or one of `following.active`, `publishing` and `migrating`, to end

  // True if the agent is in memory only because of a command that was refused.
  bool is_unused() const { return state && !on_disk && state->size() == 0 && state->last_seq == 0; }
  // True if its file holds all that is durable.
  bool is_clean() const {
    return !rebuild && turn != Turn::loading && (!state || (!state->is_dirty() && turn != Turn::checkpointing));
  }
};

// Has an agent's turn until it is destroyed, or end() is called. Then those that wait for it go on, one step of the
// loop later.
class TurnGuard {
 public:
  TurnGuard(asio::io_context& loop, std::shared_ptr<Agent> agent, Turn what);
  TurnGuard(TurnGuard&&) noexcept = default;
  TurnGuard& operator=(TurnGuard&&) = delete;
  ~TurnGuard() { end(); }  // NOLINT(bugprone-exception-escape): throws when memory is out, and the daemon ends
  void end();

 private:
  asio::io_context* loop_;
  std::shared_ptr<Agent> agent_;  // null: ended
};

}  // namespace sessiond::ledger
