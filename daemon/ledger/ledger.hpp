// The ledger: decide → journal → apply, in one order for all agents, on one thread (ARCHITECTURE). Commands are decided
// and applied in memory at once; what they reveal (reply, event, read) waits until the batch that carries them is
// durable. When a batch fails, the agents it touched are rebuilt from durable state. Nothing here blocks; files are
// made behind, by disk threads.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "config/config.hpp"
#include "daemon/decide/agent_state.hpp"
#include "daemon/decide/decision.hpp"
#include "daemon/decide/foreign.hpp"
#include "daemon/ledger/paths.hpp"
#include "daemon/ledger/projection.hpp"
#include "daemon/ledger/state_cut.hpp"
#include "daemon/ledger/watch.hpp"
#include "daemon/runtime/waiters.hpp"
#include "store/answers/answers.hpp"
#include "store/journal/age_clock.hpp"
#include "store/journal/file_journal.hpp"
#include "store/sessions/sessions_file.hpp"
#include "transcripts/transcript.hpp"

namespace sessiond {

// Within what an Idempotency-Key is unique: one text, in which a session stands by its key, however it was named.
struct IdempotencyScope {
  std::string before{};
  std::string session{};  // as the request names it; empty: it names none
  std::string after{};
  Digest of(std::string_view session_key) const { return digest(before + std::string(session_key) + after); }
};

// Who asks, and how the answer is remembered.
struct Requester {
  std::string actor;
  std::optional<IdempotencyScope> scope{};
  Digest request{};            // of all that says what is asked for, with a scope
  bool respond_async = false;  // answer 202 before it is durable
};

struct Reply {
  int status = 200;
  std::string body{};
  std::string etag{};
  std::string location{};
  bool replayed = false;
};

struct DirtyEntry;  // agent.hpp
class Seen;         // show.hpp

using Decide = std::function<Result<Decision>(const AgentState&, const Context&, const FetchedLines&)>;

// How things stand, for /readyz, /metrics and doctor.
struct LedgerStatus {
  std::uint64_t head = 0, durable = 0, oldest = 0;
  bool writable = true;
  std::string refusal;               // why not writable
  std::vector<std::string> repairs;  // since the start
  std::vector<std::string> damage;   // of the journal, that is still there; nothing that a start needs
  JournalCheck journal_check{};
  std::vector<std::string> lagging;  // why CHECKPOINT does not advance; agents whose checkpoint fails, with the reason
  std::int64_t checkpoint_lag_ms = 0;  // the oldest change that is not in its sessions.json
  std::vector<std::string> degraded;   // agents and transcripts that cannot be used; only they answer 503
  std::vector<std::string> loading;    // big stores that are being read
  std::string unwatched;               // why foreign changes are only seen when the cache is older than its TTL
  bool answers_truncated = false;
  std::uint64_t commits = 0, batches = 0, batch_bytes = 0, checkpoints = 0, evictions = 0;
  std::uint64_t sync_ns = 0;  // spent in write + fdatasync
  std::size_t agents = 0;
  std::size_t lock_waits = 0;           // files that wait for another program's lock
  std::vector<std::string> recovering;  // of them those that lack lines which the start took from the journal
};

class Ledger {
 public:
  // Opens the state directory and recovers; blocks. `disk` runs everything that may block later on. With `repair`, a
  // damaged journal is quarantined.
  static Result<std::unique_ptr<Ledger>> open(asio::io_context& io, asio::thread_pool& disk, const Config& config,
                                              Rules rules, bool repair);
  ~Ledger();
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // Decides, commits and answers once durable. `create` makes an agent that is not there yet (else agent_not_found).
  asio::awaitable<Result<Reply>> commit(std::string agent, Requester intent, Decide decide, bool create = false);
  // A commit that concerns no agent (tokens, policy, locks): one event.
  asio::awaitable<Result<Reply>> announce(EventType type, std::string data, std::string actor, std::string agent = {});

  // The one way to tell anybody of an agent's state (show.hpp): `call` makes an answer of it, a Result, and gets it
  // back from the caller's co_await once all that it rests on is durable. When that is taken back, `call` is asked
  // again. The state is as of now: loaded when need be, looked at again on disk when the cache is older than its TTL or
  // `fresh`.
  template <class Call>  // Result<…>(const AgentState&, Seen&)
  asio::awaitable<std::invoke_result_t<Call&, const AgentState&, Seen&>> show(std::string agent, bool fresh, Call call);
  // The same of several agents in one moment, without those that are not there; with `degraded`, without those that
  // cannot be read either, which it then names.
  using States = std::vector<const AgentState*>;
  template <class Call>  // Result<…>(const States&, Seen&)
  asio::awaitable<std::invoke_result_t<Call&, const States&, Seen&>> show_all(
      std::vector<std::string> agents, bool fresh, Call call, std::vector<std::string>* degraded = nullptr);
  asio::awaitable<Result<void>> load(std::string id);  // into memory
  asio::awaitable<std::vector<std::string>> agent_ids();
  // The output gate: until everything up to `seq` is durable.
  asio::awaitable<Result<void>> settled(std::uint64_t seq);
  // "<epoch>-<seq>": a state that shows nothing newer than `last_seq` (of a session, transcript or agent) is a state as
  // of this id.
  std::string as_of(std::uint64_t last_seq) const;

  // A transcript file of an agent, all acknowledged lines in it, for one call on a disk thread (reader.hpp).
  // lock_timeout when another program's lock keeps lines of the last recovery out of it.
  template <class Call>
  asio::awaitable<std::invoke_result_t<Call&, Transcript&>> read_transcript(std::string agent, std::string file,
                                                                            Call call);
  asio::awaitable<Result<void>> flush_transcript(std::string agent, std::string file);
  // Requests that wait for a lock now, by the file that it locks.
  const std::map<std::string, int>& lock_waiters() const { return lock_waiters_; }

  asio::awaitable<Result<void>> checkpoint_all();
  // All that is durable now, as files that stay as they are (state_cut.hpp). Let it go on a disk thread.
  asio::awaitable<Result<std::shared_ptr<StateCut>>> cut();
  // From here on no request waits for another program's lock or for room in the journal: it is answered 503. What can
  // be done at once still is.
  void drain();
  asio::awaitable<void> stop();  // refuses commits, drains the journal, checkpoints

  Rules& rules() { return rules_; }
  // Called with the events of each batch when it is durable, in order.
  void on_events(std::function<void(std::vector<Event>)> call) { on_events_ = std::move(call); }
  std::uint64_t durable() const { return durable_; }
  std::int64_t age_now() const { return clock_->now(); }  // for what ends after a while (age_clock.hpp)
  const Journal& journal() const { return *journal_; }
  const std::string& epoch() const { return epoch_; }
  const Paths& paths() const { return paths_; }
  asio::thread_pool& disk() { return disk_; }
  asio::io_context& io() { return io_; }
  LedgerStatus status() const;
  struct AgentStatus {
    std::int64_t checkpoint_lag_ms = 0;
    bool dirty = false;
    std::uint64_t bytes = 0;  // of sessions.json
  };
  AgentStatus agent_status(std::string_view id) const;

 private:
  struct Agent;
  struct InFlight;
  struct Loaded;
  struct Generations;
  struct LoadWish;
  friend class Recovery;

  Ledger(asio::io_context& io, asio::thread_pool& disk, const Config& config, Rules rules,
         std::unique_ptr<FileJournal> journal, std::unique_ptr<AnswerStore> answers, std::unique_ptr<AgeClock> clock);

  // agents.cpp
  Agent& slot(const std::string& id);
  asio::awaitable<Result<void>> ensure_loaded(std::string id, bool create);
  Result<Loaded> load_from_disk(const std::string& id, LoadWish wish) const;
  void keep_away(const std::filesystem::path& temp, std::vector<std::string>& told) const;
  template <class Seen>
  Result<void> replay_agent(AgentState& state, std::uint64_t from, std::uint64_t archived_from, Seen seen) const;
  asio::awaitable<Result<Loaded>> load_in_turn(std::shared_ptr<Agent> agent);
  // Its store cannot be used: told once, answered with what this returns.
  Problem degrade(Agent& agent, const Problem& why);
  void mended(Agent& agent);
  asio::awaitable<Result<void>> install(std::string id, Loaded loaded);
  SessionsFile::Options store_options(const std::string& id) const;
  asio::awaitable<Result<void>> look_again(std::string id);
  asio::awaitable<Result<void>> commit_external(std::string id, ForeignChange change, bool at_load = false);
  // For show() alone, valid until the next co_await. at_hand: null when the agent has to be loaded or looked at first.
  const AgentState* at_hand(std::string_view id);
  const AgentState* in_memory(std::string_view id) const;
  asio::awaitable<Result<const AgentState*>> agent(std::string id, bool fresh);
  // Null once everything up to `seq` is durable. Else why it never will be, when the agents stand again as they are
  // without it, or when that cannot be had either.
  asio::awaitable<Waiters::Outcome> taken_back(std::uint64_t seq);
  struct OpenTranscript;
  asio::awaitable<std::shared_ptr<OpenTranscript>> reader(const std::string& agent, const std::string& file);
  asio::awaitable<Result<void>> fetch(const std::string& agent, const Need& need, FetchedLines& lines, FetchedIds& ids);

  // upkeep.cpp
  // Runs what nobody waits for but stop(). An exception ends the daemon: nobody would go on with what was begun.
  void in_background(asio::awaitable<void> task, std::string_view name);
  void tell(EventType type, std::string data, std::string agent = {});  // announce() that nobody waits for
  std::int64_t ttl_ms() const;
  void evict_idle();
  asio::awaitable<void> purge_ephemeral(std::string id);
  asio::awaitable<Result<void>> mend_transcript(const std::string& agent, const std::string& file);
  void note_repair(std::string what);  // in the log and for /readyz
  // `path`: what was repaired, where it is not the agent's store.
  void tell_repairs(const std::string& agent, const std::vector<std::string>& repairs, const std::string& path = {});
  void tell_evictions(const std::string& agent, const std::vector<Eviction>& evictions);

  // follow.cpp
  void watch(Agent& agent);
  bool watches(const Result<bool>& added);
  void seen(Watch::Seen seen);
  void touched(const std::string& id);
  asio::awaitable<void> look_once_more(std::string id);
  void not_read(const std::string& id, const Problem& why) const;
  void follow(const std::string& id, const std::string& file);
  asio::awaitable<void> look_everywhere();
  void tell_databases(const std::vector<std::filesystem::path>& found);
  asio::awaitable<void> look_at(std::string id, std::set<std::string> files);
  asio::awaitable<Result<std::vector<ForeignEdit>>> foreign_lines(std::string id, std::set<std::string> files);
  asio::awaitable<void> look_at_lines(std::string id, std::set<std::string> files);
  asio::awaitable<Result<void>> publish(std::string id, std::string file);
  asio::awaitable<Result<void>> publish_lines(std::string id, std::string file);
  asio::awaitable<Result<ForeignLines>> first_lines(std::string id, ForeignEdit edit);

  // ledger.cpp
  asio::awaitable<Result<void>> wait_for_room();
  asio::awaitable<void> end_waits_for_room();
  Result<void> check_own_backlog(const Agent& agent) const;
  Result<std::uint64_t> stage(AgentState& state, Decision& decision, std::vector<Answer> answers = {});
  asio::awaitable<std::vector<Digest>> scopes_of(const std::string& agent, const IdempotencyScope& scope);
  void on_outcome(BatchOutcome outcome);
  void on_durable(BatchOutcome outcome);
  void on_failure(const BatchOutcome& outcome);
  asio::awaitable<void> rebuild();
  Context context(const Requester& intent, std::string_view source);

  // checkpointer.cpp
  // One try; lock_timeout when another program holds the lock now.
  asio::awaitable<Result<void>> checkpoint(std::string id);
  void not_written(Agent& agent, const Problem& why);
  std::int64_t lock_poll_ms();
  // Until sessions.json holds everything up to `seq`; lock_timeout when its lock cannot be had within
  // store.lock.timeoutMs.
  asio::awaitable<Result<void>> write_store(std::string id, std::uint64_t seq);
  using Keys = std::unordered_set<std::string>;
  asio::awaitable<std::vector<DirtyEntry>> collect(AgentState& state, const Keys& keys);
  asio::awaitable<Result<void>> sync_files();
  asio::awaitable<Result<void>> advance_checkpoint();
  asio::awaitable<void> renew_resting();
  asio::awaitable<void> checkpoint_loop();

  // flush.cpp
  void project(std::vector<Commit> commits, bool at_once, std::uint64_t bytes);
  void hand_over();
  Result<void> project_pending();  // on the files strand
  // Shared mode: until a transcript (file empty: every one of the agent) holds its durable lines; lock_timeout when its
  // lock cannot be had in time.
  asio::awaitable<Result<void>> lines_written(std::string agent, std::string file = {});
  bool any_held(std::string_view beginning) const;
  Result<void> check_stuck(const std::string& agent, const Decision& decision) const;
  // By file: what stands in its way, "" where another program holds its lock.
  using HeldFiles = std::map<std::string, std::string, std::less<>>;
  HeldFiles held_files() const;
  void note_held(const HeldFiles& files);
  Result<void> flush_now(const std::string& file);
  void schedule_flush();
  asio::awaitable<void> tell_renumbered(std::string id, std::string file, std::uint64_t from);
  void tell_doubled(const std::string& id, const std::string& file, const std::string& entry);

  // ends.cpp
  struct TranscriptTurn;
  struct TranscriptHold;
  // Does the transcript end where the state says? One lstat, here on the loop.
  bool ends_as_known(const AgentState& state, const std::string& file) const;
  // Shared mode: the hold of a transcript's lock that others have now, if one may still join it.
  std::shared_ptr<TranscriptHold> join_hold(const std::string& agent, const std::string& file);
  // Takes the lock, and publishes what other programs added to the file. lock_timeout when it cannot be had in time.
  asio::awaitable<Result<std::shared_ptr<TranscriptHold>>> hold_transcript(std::string agent, std::string file);
  asio::awaitable<Result<void>> take_hold(std::shared_ptr<TranscriptHold> hold, std::string agent, std::string file,
                                          std::int64_t deadline);
  // The lock is free when this returns, unless others share the hold.
  asio::awaitable<void> end_hold(std::shared_ptr<TranscriptHold> hold);
  // For a commit that was answered before it was durable.
  asio::awaitable<void> finish(std::uint64_t seq, std::string agent, std::vector<TranscriptUpdate> transcript_updates,
                               std::shared_ptr<void> key, std::shared_ptr<TranscriptHold> hold);

  asio::io_context& io_;
  asio::thread_pool& disk_;
  Config config_;
  Rules rules_;
  Paths paths_;
  std::string epoch_;
  IdSource ids_;

  // Disk side: `files_` runs the projection, `marks_` writes CHECKPOINT and the answers; each agent's sessions.json has
  // a strand of its own (Agent::turn).
  asio::strand<asio::thread_pool::executor_type> files_;
  asio::strand<asio::thread_pool::executor_type> marks_;
  bool big_load_ = false;  // a big store is being read: one at a time, so that disk threads are left for the others
  Waiters big_load_ended_;
  // Until everything was looked at once. What the daemon finds then is what it starts from; an agent that appears later
  // was made by another program, and all of it is published.
  std::atomic<bool> adopting_{true};
  Projection projection_;          // files_ only
  std::deque<Commit> to_project_;  // files_ only
  std::atomic<bool> projection_failing_{false};
  std::map<std::string, std::string, std::less<>> blocked_;  // files_ only, like HeldFiles: of commits that wait
  // Transcripts whose lines wait for another program's lock, as of the last flush.
  struct Held {
    std::int64_t since = 0;  // steady ms
    std::string why{};       // what stands in its place; "": another program's lock
  };
  std::map<std::string, Held, std::less<>> held_;
  // Of them those that lack lines which the last start took from the journal.
  std::set<std::string, std::less<>> recovered_;
  std::map<std::string, std::shared_ptr<TranscriptTurn>> turns_;  // at transcripts' locks, by path; bounded
  int holds_ = 0;                                                 // of transcripts' locks, taken or being taken
  Waiters flushed_;                                               // whoever waits for the next flush
  std::map<std::string, int> lock_waiters_;
  std::map<std::string, std::shared_ptr<OpenTranscript>> readers_;  // open transcripts, by path; bounded

  std::map<std::string, std::shared_ptr<Agent>, std::less<>> agents_;
  std::unordered_set<std::string> in_flight_keys_;  // idempotency scopes being committed
  std::deque<InFlight> in_flight_;
  std::vector<Commit> gathered_;  // durable, not yet in the hands of files_
  std::uint64_t gathered_bytes_ = 0;
  std::uint64_t next_seq_ = 1;
  std::uint64_t durable_ = 0;
  Waiters gate_;
  Waiters mended_;  // whoever waits for what was not stored to be forgotten
  Waiters room_;    // commits that wait for the journal's backlog to shrink, by their deadline (steady ms)
  bool room_watched_ = false;
  std::function<void(std::vector<Event>)> on_events_{};
  std::unique_ptr<AnswerStore> answers_;
  std::unique_ptr<AgeClock> clock_;

  Watch watch_;
  std::string unwatched_;                                   // why not all folders are watched
  std::string still_unwatched_;                             // the same, in this round of looking everywhere
  std::map<std::string, std::set<std::string>> to_follow_;  // transcripts that were touched, by agent
  std::set<std::string> databases_;                         // Paths::databases, as of the last look
  bool follow_scheduled_ = false;
  asio::steady_timer follow_timer_;
  bool looking_everywhere_ = false;
  bool everywhere_wanted_ = false;
  std::int64_t next_look_ = 0;  // steady ms: at everything
  std::int64_t started_;        // ms since the epoch

  bool draining_ = false;
  bool stopping_ = false;
  bool failed_ = false;  // a batch was not stored; agents are being rebuilt
  std::shared_ptr<const Problem> failure_;
  std::int64_t refused_at_ = 0;  // steady ms of the last batch that was not stored; 0: one was stored since
  std::string refusal_;          // and why it was not
  std::vector<std::string> touched_by_failure_;
  std::uint64_t checkpointed_ = 0;  // CHECKPOINT's smallest seq
  // The same without agents whom another program's lock keeps back: nobody else waits for that program.
  std::uint64_t backlog_from_ = 0;
  std::uint64_t backlog_ = 0;  // bytes of journal beyond that, as of the last batch
  std::minstd_rand jitter_{std::random_device{}()};
  std::uint64_t synced_ = 0;  // the seq of the last CHECKPOINT
  std::int64_t next_sync_ = 0;
  std::string sync_trouble_;  // why CHECKPOINT could not advance the last time
  bool flush_scheduled_ = false;
  asio::steady_timer flush_timer_;
  asio::steady_timer checkpoint_timer_;
  int background_ = 0;  // tasks that run
  Waiters background_ended_;
  int cuts_ = 0;  // being made: retention waits
  LedgerStatus counters_;
  std::vector<std::string> repairs_;

  const FileJournal& journal_files_;  // the same, for status, backups and the start
  std::unique_ptr<Journal> journal_;  // last: its thread stops first
};

}  // namespace sessiond
