// The order of all commits, and the output gate. A decision is applied in memory at once. It goes to the journal with
// the others of the same round of the loop, so that they are stored together. What it reveals (a reply, an event, a
// read) waits here until the batch that carries it is durable. When a batch fails, its seqs are taken back: the agents
// that it touched are read again, and the numbers are given to later events. Only this class knows that a seq can be
// taken back. Thread: the loop. The journal's thread tells of each batch by posting on_outcome()
// (daemon/ledger/recovery.cpp).
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "daemon/decide/agent_state.hpp"
#include "daemon/decide/decision.hpp"
#include "daemon/ledger/env.hpp"
#include "daemon/runtime/waiters.hpp"
#include "store/answers/kept_answers.hpp"
#include "store/journal/age_clock.hpp"
#include "store/journal/journal.hpp"

namespace sessiond::ledger {

class Commits {
 public:
  // Called back when a batch is durable, and when one was not stored.
  struct Hooks {
    // Everything of the batch, in order. `archives`: it renames transcripts.
    std::function<void(journal::BatchOutcome batch, std::vector<decide::Change> changes, bool archives)> on_durable{};
    // Takes an agent out of memory once its turn is free; false: it is not in memory.
    std::function<asio::awaitable<bool>(std::string)> forget{};
    // Reads these agents again from what is durable.
    std::function<asio::awaitable<void>(std::set<std::string>)> reload{};
  };
  struct Counters {
    // Upper bounds of the buckets of `syncs` in seconds; one more bucket has no bound.
    static constexpr std::array<double, 13> sync_bounds{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01,
                                                        0.025,  0.05,    0.1,    0.25,  1,      5};
    std::uint64_t commits = 0, batches = 0, batch_bytes = 0;
    std::uint64_t sync_ns = 0;                                  // spent in write and fdatasync
    std::array<std::uint64_t, sync_bounds.size() + 1> syncs{};  // batches by how long that took
  };

  // Nothing may be staged before set_hooks().
  Commits(LedgerEnv& env, std::unique_ptr<journal::Journal> journal, std::unique_ptr<answers::KeptAnswers> answers,
          std::unique_ptr<journal::AgeClock> clock);
  ~Commits();  // stores what was staged
  Commits(const Commits&) = delete;
  Commits& operator=(const Commits&) = delete;
  void set_hooks(Hooks hooks) { hooks_ = std::move(hooks); }

  // Makes the context of a decision that is made now. `actor` must outlive the context.
  decide::Context context(std::string_view actor, std::string_view source);
  // Applies a decision to the state and queues it. Returns the seq that an answer must wait for: that of its last
  // event; without events, of the newest one that touched the agent. The decision must have been made with context()
  // since the last co_await.
  std::uint64_t stage(decide::AgentState& state, decide::Decision& decision, std::vector<answers::Answer> answers = {});
  // Commits one event that concerns no session.
  asio::awaitable<Result<void>> announce(journal::EventType type, std::string data, std::string actor,
                                         std::string agent);

  asio::awaitable<Result<void>> wait_until_durable(std::uint64_t seq);
  // Returns null once everything up to `seq` is durable. Else returns why it never will be; by then the agents have
  // been read again without it, or cannot be read (failed()).
  asio::awaitable<runtime::Waiters::Outcome> wait_for_outcome(std::uint64_t seq);
  std::uint64_t durable() const { return durable_; }
  std::uint64_t last() const { return next_seq_ - 1; }  // staged, durable or not
  bool failed() const { return failure_ != nullptr; }   // a batch was not stored, and agents are being read again
  std::unexpected<Problem> failure() const;             // failed()
  // Adds the agent to those that are read again because the failed batch touched them. Requires failed().
  void reload_after_failure(const std::string& agent);
  // Says why writes are refused, or were a moment ago. Empty: they are not.
  std::string refusal() const;

  void on_outcome(journal::BatchOutcome outcome);

  journal::Journal& journal() const { return *journal_; }
  answers::KeptAnswers& answers() const { return *answers_; }
  journal::AgeClock& clock() const { return *clock_; }
  const Counters& counters() const { return counters_; }

 private:
  struct InFlight {
    std::uint64_t last = 0;
    std::string agent;
    std::vector<decide::Change> changes;
    std::vector<answers::Answer> answers;
    std::vector<std::string> answers_json;
    bool archives = false;
  };
  void hand_over();
  void on_durable(journal::BatchOutcome outcome);
  void on_failure(const journal::BatchOutcome& outcome);
  asio::awaitable<void> rebuild();

  LedgerEnv& env_;
  Hooks hooks_{};
  decide::IdSource ids_;
  std::unique_ptr<answers::KeptAnswers> answers_;
  std::unique_ptr<journal::AgeClock> clock_;
  std::deque<InFlight> in_flight_{};
  std::vector<journal::Commit> staged_{};  // in this round of the loop; the last of in_flight_
  std::uint64_t next_seq_;
  std::uint64_t durable_;
  runtime::Waiters gate_{};     // by seq
  runtime::Waiters rebuilt_{};  // until what was not stored is forgotten
  std::shared_ptr<const Problem> failure_{};
  std::int64_t refused_at_ = 0;  // steady ms of the last batch that was not stored; 0: one was stored since
  std::string refusal_{};        // and why it was not
  std::vector<std::string> touched_by_failure_{};
  Counters counters_{};
  std::unique_ptr<journal::Journal> journal_;  // last: its thread stops first
};

}  // namespace sessiond::ledger
