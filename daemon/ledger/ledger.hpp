// The ledger: decide → journal → apply, in one order for all agents, on one thread (ARCHITECTURE). Commands are decided
// and applied in memory at once; what they reveal (reply, event, read) waits until the batch that carries them is
// durable. When a batch fails, the agents it touched are rebuilt from durable state. Nothing here blocks; files are
// made behind, by disk threads.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>

#include "config/config.hpp"
#include "daemon/decide/decision.hpp"
#include "daemon/ledger/parts.hpp"

namespace sessiond::journal {
struct JournalFileOps;
}  // namespace sessiond::journal

namespace sessiond::ledger {

// Within what an Idempotency-Key is unique: one text, in which a session stands by its key, however it was named.
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
  answers::Digest request{};   // of all that says what is asked for, with a scope
  bool respond_async = false;  // answer 202 before it is durable
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

// How things stand, for /readyz, /metrics and doctor.
struct LedgerStatus {
  std::uint64_t head = 0, durable = 0, oldest = 0;
  bool writable = true;
  std::string refusal;               // why not writable
  std::vector<std::string> repairs;  // since the start
  std::vector<std::string> damage;   // of the journal, that is still there; nothing that a start needs
  journal::JournalCheck journal_check{};
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
  // damaged journal is quarantined. Tests give `file_ops` to make the journal's disk fail; null: the system's calls.
  static Result<std::unique_ptr<Ledger>> open(asio::io_context& io, asio::thread_pool& disk,
                                              const config::Config& config, decide::Rules rules, bool repair,
                                              std::shared_ptr<const journal::JournalFileOps> file_ops = {});
  ~Ledger();
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // Decides, commits and answers once durable. `create` makes an agent that is not there yet (else agent_not_found).
  asio::awaitable<Result<Reply>> commit(std::string agent, Requester intent, Decide decide, bool create = false);
  // A commit that concerns no agent (tokens, policy, locks): one event.
  asio::awaitable<Result<Reply>> announce(journal::EventType type, std::string data, std::string actor,
                                          std::string agent = {});

  // The one way to tell anybody of an agent's state (show.hpp): `call` makes an answer of it, a Result, and gets it
  // back from the caller's co_await once all that it rests on is durable. When that is taken back, `call` is asked
  // again. The state is as of now: loaded when need be, looked at again on disk when the cache is older than its TTL or
  // `fresh`.
  template <class Call>  // Result<…>(const AgentState&, Seen&)
  auto show(std::string agent, bool fresh, Call call) {
    return parts_.agents.show(std::move(agent), fresh, std::move(call));
  }
  // The same of several agents in one moment, without those that are not there; with `degraded`, without those that
  // cannot be read either, which it then names.
  using States = Agents::States;
  template <class Call>  // Result<…>(const States&, Seen&)
  auto show_all(std::vector<std::string> agents, bool fresh, Call call, std::vector<std::string>* degraded = nullptr) {
    return parts_.agents.show_all(std::move(agents), fresh, std::move(call), degraded);
  }
  // Brings the agent into memory.
  asio::awaitable<Result<void>> load(std::string id) { return parts_.agents.load(std::move(id), false); }
  asio::awaitable<std::vector<std::string>> agent_ids() { return parts_.agents.ids(); }
  // The output gate: until everything up to `seq` is durable.
  asio::awaitable<Result<void>> wait_until_durable(std::uint64_t seq) { return parts_.commits.wait_until_durable(seq); }
  // "<epoch>-<seq>": a state that shows nothing newer than `last_seq` (of a session, transcript or agent) is a state as
  // of this id.
  std::string as_of(std::uint64_t last_seq) const;

  // A transcript file of an agent, all acknowledged lines in it, for one call on a disk thread
  // (transcript_readers.hpp). lock_timeout when another program's lock keeps lines of the last recovery out of it.
  template <class Call>
  auto read_transcript(std::string agent, std::string file, Call call) {
    return parts_.readers.read(std::move(agent), std::move(file), std::move(call));
  }
  asio::awaitable<Result<void>> flush_transcript(std::string agent, std::string file) {
    return parts_.flusher.flush(std::move(agent), std::move(file));
  }
  asio::awaitable<Result<void>> checkpoint_all() { return parts_.checkpointer.write_all(); }
  // All that is durable now, as files that stay as they are (snapshot.hpp). Let it go on a disk thread.
  asio::awaitable<Result<std::shared_ptr<StateSnapshot>>> take_snapshot() {
    return parts_.checkpointer.take_snapshot();
  }
  // From here on no request waits for another program's lock or for room in the journal: it is answered 503. What can
  // be done at once still is.
  void drain();
  asio::awaitable<void> stop();  // refuses commits, drains the journal, checkpoints

  decide::Rules& rules() { return parts_.env.rules; }
  // Called with the events of each batch when it is durable, in order.
  void on_events(std::function<void(std::vector<journal::Event>)> call) { on_events_ = std::move(call); }
  LedgerStatus status() const;
  const journal::Journal& journal() const { return parts_.commits.journal(); }
  // To read how a part stands.
  const LedgerParts& parts() const { return parts_; }

 private:
  Ledger(asio::io_context& io, asio::thread_pool& disk, const config::Config& config, decide::Rules rules,
         std::unique_ptr<journal::FileJournal> journal, std::unique_ptr<answers::AnswerStore> answers,
         std::unique_ptr<journal::AgeClock> clock);

  LedgerParts parts_;
  std::unordered_set<std::string> in_flight_keys_;  // idempotency scopes that are being committed
  std::function<void(std::vector<journal::Event>)> on_events_{};
};

}  // namespace sessiond::ledger
