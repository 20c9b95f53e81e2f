// A run is one piece of agent work on one session: claimed by one runner, kept by a lease, ended exactly once
// (policy/runs/README.md). These are the runs as an agent's state has them, and their JSON: as the API shows them, and
// as journal/runs/<agent>.json keeps them. Pure values.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/decide/approval.hpp"
#include "daemon/decide/takeover.hpp"
#include "policy/redaction.hpp"
#include "policy/runs/queue.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::decide {

enum class RunStatus : std::uint8_t { queued, running, aborting, done, failed, interrupted, dropped, expired };
std::string_view name(RunStatus status);
std::optional<RunStatus> run_status(std::string_view name);

struct RunTimes {
  std::int64_t created_at = 0, started_at = 0, ended_at = 0;  // ms since the epoch; 0: not yet
  std::int64_t age_created_at = 0;  // by the clock of ages (store/journal/age_clock.hpp); 0: not known
  std::int64_t ready_at = 0;        // a queued run waits until then for more input
  std::int64_t lease_ms = 0, idle_timeout_ms = 0;
};
struct RunModel {
  std::string model{}, provider{}, model_source{};
  std::string instructions{};
};
// Of a queued run: its place in the queue.
struct RunPlace {
  runs::Origin origin = runs::Origin::queued;
  bool collects = false;             // queued by mode collect: further input of the same address joins it
  std::vector<std::string> texts{};  // how each input begins, for the summary of dropped ones
};
struct RunEnding {
  std::string stop_reason{};
  std::string error{};           // raw JSON object; empty: none
  std::string response{};        // the text of its last assistant entry, as people left it
  std::string response_entry{};  // the id of that entry; empty: not known
  std::string deliveries{};      // raw JSON array, of its finish by the runner; empty: none
};

struct Run : RunTimes, RunModel, RunPlace, RunEnding {
  std::string id{};
  std::string session_id{};
  std::optional<std::string> topic{};
  RunStatus status = RunStatus::queued;
  std::string runner{};  // the name that it gave itself; empty while queued
  std::string token{};   // of the token that has the lease
  std::int64_t attempt = 1;
  std::string retry_of{};  // a run id; empty: none
  std::int64_t steps = 0;
  bool in_step = false;                     // the last step has not finished
  std::optional<std::int64_t> max_steps{};  // as asked; nothing: the configured one. 0: no limit
  std::vector<std::string> input{};         // entry ids
  std::vector<std::string> deleted{};       // of these, while the run is active: a retry goes without them
  std::string reply_to{};                   // raw JSON object; empty: none
  std::string additional_context{};         // what hooks said at its start
  std::string stopped_by{};                 // the token that asked it to stop; empty: none did
  bool superseded = false;  // a person speaks in its place: what it ends with is stored, and never delivered
  bool is_settled = false;  // its inputs do not wait again: something that it wrote went out, or somebody stopped it

  bool is_active() const { return status == RunStatus::running || status == RunStatus::aborting; }
};

// A run as the event `seq` tells it, where it need not be read from the event. `more`: an object of the members of its
// data that are not the run's.
struct ToldRun {
  std::uint64_t seq = 0;
  Run run{};
  std::string more{};
};

// A message that was handed to the active run, and that its runner has not confirmed.
struct Steered {
  std::string entry_id{};
  std::string text{};
};

// The part of an active run that is in memory only: calls and text that are not stored yet.
struct RunPulse {
  bool known = false;  // false after a restart: the runner may be ahead of what is stored
  std::uint64_t calls = 0;
  std::string text{};
  // Where keys are taken out: the end of what was said and thought, which may be the beginning of one.
  policy::PieceRedactor said_end{}, thought_end{};
  std::uint64_t since = 0;  // SessionRuns::text_seq when the text was said: what is stored later has it
};

// A run that its runner has finished: a repeated finish is answered as the first.
struct Finished {
  std::string run_id{};
  std::uint64_t fence = 0;
  std::string token{};  // empty: an earlier version did not keep it; its finish is repeated to nobody
};

// Tells what a session has open: from the first run after it was made, reset, restored or shut down, until it is shut
// down.
struct Opening {
  bool is_open = false;
  std::string next{};    // the source of the SessionStart that is still to come; empty: none, or as the entry says
  std::string reason{};  // of the last shutdown
  std::int64_t shut_down_at = 0;

  // The next run does not open it again.
  bool has_begun() const { return is_open && next.empty(); }
  void begin() {
    is_open = true;
    next.clear();
  }
  bool is_known() const { return is_open || !next.empty() || shut_down_at != 0; }
};

// The runs of one session.
struct SessionRuns {
  // Rises by one with each lease. A write that names another one is refused.
  std::uint64_t fence = 0;
  std::optional<Run> active{};
  std::string partial{};  // text that the active run has said since its last assistant entry, as far as it is stored
  std::uint64_t text_seq = 0;  // of the event that last stored what the run has said; 0: none since it was loaded
  std::uint64_t calls = 0;     // the greatest `n` of an events call under this fence that is stored
  std::vector<Steered> steered{};
  std::deque<Run> queued{};                                // in the order in which they are handed out
  std::vector<runs::Overflow> overflows{};                 // what the full queue has dropped, and no run was told
  std::deque<std::shared_ptr<const std::string>> ended{};  // as the API shows them, the newest last
  std::string last_runner{};
  std::vector<Finished> finished{};  // of `ended`
  ApprovalList approvals{};
  Opening opening{};
  std::optional<Takeover> takeover{};  // a person speaks in place of the agent: no run starts

  // Returns whether the first queued run may be handed out.
  bool may_start() const { return !active && !queued.empty() && !takeover; }
  const Run* find_queued(std::string_view id) const;
  // Null: nothing was dropped of which a run is to be told.
  const runs::Overflow* overflow_for(const Run& run) const;
  const Finished* find_finished(std::string_view id) const;  // null: no runner has finished it, as far back as kept
  // Null: no run has ended under this id, as far back as they are kept.
  const std::string* find_ended(std::string_view id) const;
  bool is_empty() const {
    return fence == 0 && !active && queued.empty() && ended.empty() && overflows.empty() && !opening.is_known() &&
           !takeover;
  }
};

// Returns the index in a queue at which a new run is put: behind those that go before it.
template <class Runs>
std::size_t place_in(const Runs& queue, const Run& run) {
  std::vector<runs::Origin> origins;
  origins.reserve(queue.size());
  for (const Run& each : queue) origins.push_back(each.origin);
  return runs::place_in_queue(origins, run.origin);
}
// A queued run is told again with more or fewer inputs, and with the texts of the new ones only. Gives it those that it
// had before.
void take_texts(Run& run, Run before);

// Puts a run into the queue, or in the place of the one that has its id.
void put_in_queue(std::deque<Run>& queue, Run run);

runs::Address address_of(const Run& run);

std::string overflow_json(const runs::Overflow& overflow);
runs::Overflow read_overflow(std::string_view object);

// The run as the API shows it, without its lease.
std::string run_json(std::string_view key, const Run& run);
// The run with all that must outlive the daemon, and back.
std::string stored_run(const Run& run);
Run read_run(const json::Index& stored);
Run read_run(std::string_view stored);

}  // namespace sessiond::decide
