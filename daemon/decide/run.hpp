// A run is one piece of agent work on one session: claimed by one runner, kept by a lease, ended exactly once
// (policy/runs/README.md). These are the runs as an agent's state has them. The lists of their members (describe) are
// those of the API, of events and of the runs' log (run_book.hpp). Pure values.
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
#include "store/json/fields.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::decide {

enum class RunStatus : std::uint8_t { queued, running, aborting, done, failed, interrupted, dropped, expired };
std::string_view name(RunStatus status);
std::optional<RunStatus> run_status(std::string_view name);
inline std::optional<RunStatus> value_named(std::string_view text, RunStatus) { return run_status(text); }

struct RunTimes {
  std::int64_t created_at = 0, started_at = 0, ended_at = 0;  // ms since the epoch; 0: not yet
  std::int64_t age_created_at = 0;  // by the clock of ages (store/journal/age_clock.hpp); 0: not known
  std::int64_t ready_at = 0;        // a queued run waits until then for more input
  std::int64_t lease_ms = 0, idle_timeout_ms = 0;
  friend bool operator==(const RunTimes&, const RunTimes&) = default;
};
struct RunModel {
  std::string model{}, provider{}, model_source{};
  std::string instructions{};
  friend bool operator==(const RunModel&, const RunModel&) = default;
};
// Of a queued run: its place in the queue.
struct RunPlace {
  runs::Origin origin = runs::Origin::queued;
  bool collects = false;             // queued by mode collect: further input of the same address joins it
  std::vector<std::string> texts{};  // how each input begins, for the summary of dropped ones
  friend bool operator==(const RunPlace&, const RunPlace&) = default;
};
struct RunEnding {
  std::string stop_reason{};
  std::string error{};           // raw JSON object; empty: none
  std::string response{};        // the text of its last assistant entry, as people left it
  std::string response_entry{};  // the id of that entry; empty: not known
  std::string deliveries{};      // raw JSON array, of its finish by the runner; empty: none
  friend bool operator==(const RunEnding&, const RunEnding&) = default;
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

  friend bool operator==(const Run&, const Run&) = default;
  bool is_active() const { return status == RunStatus::running || status == RunStatus::aborting; }

  // All members but the id, after which the API names the session's key.
  template <class V, class R>
  static void describe_after_id(V& v, R& run) {
    v.text("sessionId", run.session_id);
    v.text_or_null("topic", run.topic);
    v.named("status", run.status);
    v.text_if("runner", run.runner);
    v.number("attempt", run.attempt);  // from 1
    v.text_if("retryOf", run.retry_of);
    v.time("createdAt", run.created_at);
    v.time("startedAt", run.started_at);
    v.time("endedAt", run.ended_at);
    v.number("steps", run.steps);
    v.texts("input", run.input);
    v.raw_if("replyTo", run.reply_to);
    v.text_if("model", run.model);
    v.text_if("provider", run.provider);
    v.text_if("modelSource", run.model_source);
    v.text_if("instructions", run.instructions);
    v.number_if("maxSteps", run.max_steps);
    v.text_if("stopReason", run.stop_reason);
    v.text_if("stoppedBy", run.stopped_by);
    v.raw_if("error", run.error);
    v.text_if("responseEntryId", run.response_entry);
    v.text_if("response", run.response);
    v.text_if("additionalContext", run.additional_context);
    v.raw_if("deliveries", run.deliveries);
    v.flag_if("superseded", run.superseded);
    v.own([&] {
      v.text("token", run.token);
      v.number("readyAt", run.ready_at);
      v.number_if("ageCreatedAt", run.age_created_at);
      v.number("leaseMs", run.lease_ms);
      v.number("idleTimeoutMs", run.idle_timeout_ms);
      v.ordinal("origin", run.origin, runs::Origin::queued);
      v.flag("inStep", run.in_step);
      v.flag("collects", run.collects);
      v.texts_if("texts", run.texts);
      v.texts_if("deleted", run.deleted);
      v.flag_if("settled", run.is_settled);
    });
  }
  template <class V, class R>
  static void describe(V& v, R& run) {
    v.text("runId", run.id);
    describe_after_id(v, run);
  }
};

// A message that was handed to the active run, and that its runner has not confirmed.
struct Steered {
  std::string entry_id{};
  std::string text{};
  friend bool operator==(const Steered&, const Steered&) = default;

  template <class V, class S>
  static void describe(V& v, S& steered) {
    v.text("entryId", steered.entry_id);
    v.text("text", steered.text);
  }
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

// A run that has ended, as the API shows it.
struct EndedRun {
  std::uint64_t seq = 0;  // of the event that ended it; of one that an earlier version kept: its place among the others
  std::string id{};
  RunStatus status = RunStatus::done;
  std::string response_entry{};  // as Run::response_entry
  std::shared_ptr<const std::string> json{};
};

// A run that its runner has finished: a repeated finish is answered as the first.
struct Finished {
  std::string run_id{};
  std::uint64_t fence = 0;
  std::string token{};  // empty: an earlier version did not keep it; its finish is repeated to nobody

  template <class V, class F>
  static void describe(V& v, F& finished) {
    v.text("runId", finished.run_id);
    v.number("fence", finished.fence);
    v.text("token", finished.token);
  }
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

  template <class V, class O>
  static void describe(V& v, O& opening) {
    v.flag("open", opening.is_open);
    v.text_if("next", opening.next);
    v.text_if("reason", opening.reason);
    v.number_if("shutDownAt", opening.shut_down_at);
  }
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
  std::deque<Run> queued{};                 // in the order in which they are handed out
  std::vector<runs::Overflow> overflows{};  // what the full queue has dropped, and no run was told
  std::deque<EndedRun> ended{};             // the newest last
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

  // All but the runs that wait or have ended: each of these is a record of its own.
  template <class V, class S>
  static void describe(V& v, S& runs) {
    v.number("fence", runs.fence);
    v.record_if("active", runs.active);
    v.text_if("partial", runs.partial);
    v.number_if("calls", runs.calls);
    v.records_if("steered", runs.steered);
    v.records_if("overflows", runs.overflows);
    v.records_if("approvals", runs.approvals);
    v.record_if("opening", runs.opening, runs.opening.is_known());
    v.text_if("lastRunner", runs.last_runner);
    v.record_if("takeover", runs.takeover);
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

// The run as the API shows it, without its lease.
std::string run_json(std::string_view key, const Run& run);

}  // namespace sessiond::decide
