// The front of the ledger: decides, journals and applies the commits of all agents in one order (ARCHITECTURE.md).
// Commands are decided and applied in memory at once; a reply, event or read that shows them waits until the batch that
// carries them is durable. When a batch fails, the agents that it touched are rebuilt from durable state.
// Thread: the loop. Nothing here blocks except open(); disk threads make the files later.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "daemon/decide/decision.hpp"
#include "daemon/ledger/known_messages.hpp"
#include "daemon/ledger/parts.hpp"

namespace sessiond::journal {
struct JournalFileOps;
}  // namespace sessiond::journal

namespace sessiond::ledger {

// The scope in which an Idempotency-Key is unique: one text, in which a session stands by its key, however the request
// named it.
struct IdempotencyScope {
  std::string before{};
  std::string session{};  // as the request names it; empty: it names none
  std::string after{};
  answers::Digest of(std::string_view session_key) const {
    return answers::digest(before + std::string(session_key) + after);
  }
};

// The requester of a commit, and how the answer is remembered.
struct Requester {
  std::string actor;
  std::optional<IdempotencyScope> scope{};
  answers::Digest request{};  // of everything that the request asks for; used with a scope
  // A message that comes a second time is answered as the first time, with duplicate:true.
  std::optional<MessageName> message{};
  bool respond_async = false;  // answer 202 before it is durable
  // Commit on the agent's ephemeral sessions (memory_sessions.hpp): nothing is journaled, and the reply says so. The
  // agent is made if it is not there yet, in memory. session_exists if it makes a session that exists durably.
  bool in_memory = false;
  // The commit is made within a turn of the agent (Agents::take_turn), so it does not wait for another turn.
  bool in_turn = false;
  std::string_view source = "api";  // of the events
};

struct Reply {
  int status = 200;
  std::string body{};
  std::string etag{};
  std::string location{};
  bool replayed = false;
};

using Decide = std::function<Result<decide::Decision>(const decide::AgentState&, const decide::Context&,
                                                      const decide::FetchedLines&)>;

// The state of the ledger, for /readyz, /metrics and doctor.
struct LedgerStatus {
  std::uint64_t head = 0, durable = 0, oldest = 0;
  std::string refusal;                     // why writes are refused; empty: they are not
  std::vector<std::string> repairs;        // since the start
  std::vector<MissingTranscript> missing;  // at the last look at their agents: they may be back
  std::vector<std::string> damage;         // of the journal that is still there, in parts that a start does not need
  journal::JournalCheck journal_check{};
  std::vector<std::string> lagging;  // why CHECKPOINT does not advance; agents whose checkpoint fails, with the reason
  std::int64_t checkpoint_lag_ms = 0;  // the oldest change that is not in its sessions.json
  std::vector<std::string> logs;       // of sessions, that cannot be written; their lines wait
  std::vector<std::string> degraded;   // agents and transcripts that cannot be used; only they answer 503
  std::vector<std::string> loading;    // big stores that are being read
  std::string unwatched;               // why foreign changes are only seen when the cache is older than its TTL
  bool answers_truncated = false;
  Commits::Counters counters{};
  std::uint64_t checkpoints = 0, evictions = 0;
  std::size_t agents = 0;
  std::size_t lock_waits = 0;           // files that wait for a foreign lock
  std::vector<std::string> recovering;  // files among them that lack lines from the last recovery
};

// The part of the status that is cheap to ask for often.
struct LedgerPulse {
  Commits::Counters counters{};
  std::int64_t checkpoint_lag_ms = 0;
  std::size_t lock_waits = 0;
};
LedgerPulse pulse_of(const LedgerParts& parts);
LedgerStatus status_of(const LedgerParts& parts);

// The state that has a session, as far as it is in memory, for parts of the daemon that act on it and show nothing of
// it. Null: none.
const decide::AgentState* loaded_state(const LedgerParts& parts, const std::string& agent, std::string_view key);

class Ledger {
 public:
  // Opens the state directory and recovers; blocks. `disk` runs everything that may block later on. With `repair`, a
  // damaged journal is quarantined. Tests give `file_ops` to make the journal's disk fail; null: the system's calls.
  static Result<std::unique_ptr<Ledger>> open(asio::io_context& io, asio::thread_pool& disk,
                                              const config::Config& config, decide::Rules rules, bool repair,
                                              std::shared_ptr<const journal::JournalFileOps> file_ops = {});
  ~Ledger();
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // Decides, commits and answers once durable (`respond_async`: at once). `create` makes an agent that is not there yet
  // (else agent_not_found).
  asio::awaitable<Result<Reply>> commit(std::string agent, Requester intent, Decide decide, bool create = false);
  // A commit that concerns no agent (tokens, policy, locks): one event.
  asio::awaitable<Result<void>> announce(journal::EventType type, std::string data, std::string actor,
                                         std::string agent = {}) {
    return parts_.commits.announce(type, std::move(data), std::move(actor), std::move(agent));
  }

  // Shows an agent's state; there is no other way to (show.hpp). `call` makes an answer from the state, a Result, which
  // is returned once every change that it rests on is durable. If one of them fails, `call` is asked again. The agent
  // is loaded if need be, and its files are looked at again when the cache is older than its TTL or with `fresh`.
  template <class Call>  // Result<…>(const AgentState&, Seen&)
  auto show(std::string agent, bool fresh, Call call) {
    return parts_.agents.show(std::move(agent), fresh, std::move(call));
  }
  // Shows several agents as of one moment, without those that do not exist. If `degraded` is given, agents that cannot
  // be read are left out too, and named in it.
  using States = Agents::States;
  template <class Call>  // Result<…>(const States&, Seen&)
  auto show_all(std::vector<std::string> agents, bool fresh, Call call, std::vector<std::string>* degraded = nullptr) {
    return parts_.agents.show_all(std::move(agents), fresh, std::move(call), degraded);
  }
  // Lists all agents, or those that may have a session of an SDK session id. Sorted.
  asio::awaitable<std::vector<std::string>> agent_ids(std::optional<std::string> sdk_session = {});
  // The output gate: waits until everything up to `seq` is durable.
  asio::awaitable<Result<void>> wait_until_durable(std::uint64_t seq) { return parts_.commits.wait_until_durable(seq); }
  // Returns "<epoch>-<seq>", the id as of which a state is that shows nothing newer than `last_seq`.
  std::string as_of(std::uint64_t last_seq) const;

  // Takes an agent out of memory: soon, if it has changes that its files do not hold or something is done with it.
  void unload(const std::string& agent) { parts_.agents.unload(agent, parts_.checkpointer.backlog().from()); }

  // Runs `call` on a disk thread with a transcript that holds all acknowledged lines (transcript_readers.hpp).
  // lock_timeout when a foreign lock keeps lines of the last recovery out of it.
  template <class Call>
  auto read_transcript(std::string agent, std::string file, Call call) {
    return parts_.readers.read(std::move(agent), std::move(file), std::move(call));
  }
  // Writes a session's transcript as version 3 if it is older. Appends wait meanwhile. Nothing: it is not older.
  // lock_timeout, session_busy.
  asio::awaitable<Result<std::optional<transcripts::Migration>>> migrate(std::string agent, std::string file,
                                                                         std::string session_id);
  // Writes an agent's sessions.json, then lets a session's transcripts leave memory, and publishes session.released.
  // lock_timeout.
  asio::awaitable<Result<void>> release(std::string agent, decide::Session session, std::vector<std::string> files);
  LentLocks& lent_locks() { return parts_.lent; }
  TranscriptFlusher& flusher() { return parts_.flusher; }
  Follower& follower() { return parts_.follower; }
  Checkpointer& checkpointer() { return parts_.checkpointer; }
  // From here on a request that would wait for a foreign lock or for room in the journal is answered 503. Others are
  // still served.
  void drain();
  asio::awaitable<void> stop();  // refuses commits, drains the journal, checkpoints

  decide::Rules& rules() { return parts_.env.rules; }
  // `durable` is called with the events of each batch when it is durable, in order; `passing` with events that have no
  // seq, such as those of ephemeral sessions.
  using OnEvents = std::function<void(std::vector<journal::Event>)>;
  void on_events(OnEvents durable, OnEvents passing) {
    on_durable_events_ = std::move(durable);
    on_passing_events_ = std::move(passing);
  }
  // `observer` is called with each of them before.
  void observe(std::function<void(const decide::Change&)> observer) { observer_ = std::move(observer); }
  // `of` gives decisions the part of an active run that is in memory only.
  void set_pulse(std::function<decide::RunPulse(const std::string&, const std::string&, const decide::RunHold&)> of) {
    parts_.env.pulse_of = std::move(of);
  }
  // Tests turn a clock of their own.
  void set_clock(runtime::Clock clock) { parts_.env.clock = std::move(clock); }
  // Returns a keyed hash where a key or id names an ephemeral session, or one that was there lately. Nothing: it does
  // not. Without an agent it is the key's.
  std::optional<std::string> hidden_name(std::string_view agent, std::string_view key_or_id) const;
  // To read how a part stands; never an agent's state, which show() shows (tests/includes.py).
  const LedgerParts& parts() const { return parts_; }

 private:
  Ledger(asio::io_context& io, asio::thread_pool& disk, const config::Config& config, decide::Rules rules,
         std::unique_ptr<journal::FileJournal> journal, std::unique_ptr<answers::KeptAnswers> answers,
         std::unique_ptr<journal::AgeClock> clock, std::string secret);

  void tell(std::vector<decide::Change> changes, const OnEvents& on_events) const;

  LedgerParts parts_;
  InFlight::Table in_flight_;
  OnEvents on_durable_events_{}, on_passing_events_{};
  std::function<void(const decide::Change&)> observer_{};
};

}  // namespace sessiond::ledger
