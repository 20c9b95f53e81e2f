#include "daemon/decide/run_steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "daemon/decide/delivery_steps.hpp"
#include "daemon/decide/hooks.hpp"
#include "daemon/decide/session_log.hpp"
#include "policy/context/window.hpp"
#include "policy/overflow.hpp"
#include "policy/runs/caps.hpp"
#include "store/try.hpp"
#include "store/utf8.hpp"

namespace sessiond::decide {
namespace {

bool is_in(const std::vector<std::string>& ids, const std::string& id) {
  return std::ranges::find(ids, id) != ids.end();
}

std::int64_t number_of(const Session& session, std::string_view name) {
  return json::int_at(*session.entry_with_old_counters(), name).value_or(0);
}

bool is_too_long(const Run& run) {
  return run.status == RunStatus::failed && !run.error.empty() &&
         json::string_at(run.error, "code") == "context_length";
}

// The session's entry after its active run has ended. `transcript`: transcripts::transcript_name.
json::Edit ended_edit(const Session& session, const Run& run, std::string_view transcript, std::int64_t now) {
  json::Edit edit;
  edit.put_int("updatedAt", moved_to(session, now));
  edit.put_string("status", name(run.status));
  edit.put_int("endedAt", now);
  edit.put_int("runtimeMs", std::max<std::int64_t>(now - run.started_at, 0));
  edit.put("abortedLastRun", run.status == RunStatus::interrupted ? "true" : "false");
  if (run.status == RunStatus::done) edit.put_int("runCount", number_of(session, "runCount") + 1);
  if (runs::counts_as_turn(name(run.status), run.steps)) edit.put_int("turnCount", number_of(session, "turnCount") + 1);
  // The next view that a model is shown is shorter: policy/context/README.md.
  if (is_too_long(run)) edit.put_string("contextExceeded", transcript);
  if (run.status == RunStatus::done && context::is_exceeded(*session.entry_with_old_counters(), transcript))
    edit.remove("contextExceeded");
  edit.remove("activeRun");
  return edit;
}

transcripts::NewEntry partial_entry(std::string_view text, const Run& run) {
  transcripts::NewEntry entry{.type = "message", .role = "assistant", .stamp = true};
  entry.body = fmt::format(R"({{"role":"assistant","content":{},"stopReason":"aborted","state":"{}"}})",
                           content_of_text(text), run.superseded ? "superseded" : "interrupted");
  return entry;
}

// The line that stays in the transcript of a run that has started.
transcripts::NewEntry record_of(const Run& run, const std::string& usage, bool retried) {
  json::ObjectWriter data;
  data.string("runId", run.id);
  data.string("status", name(run.status));
  data.integer("attempt", run.attempt);
  data.integer("steps", run.steps);
  data.integer("startedAt", run.started_at);
  data.integer("endedAt", run.ended_at);
  if (!run.stop_reason.empty()) data.string("stopReason", run.stop_reason);
  if (!run.stopped_by.empty()) data.string("stoppedBy", run.stopped_by);
  if (!run.error.empty()) data.raw("error", run.error);
  if (!usage.empty()) data.raw("usage", usage);
  if (retried) data.boolean("retried", true);
  return transcripts::custom_entry("sessiond.run", data.text());
}

// The line that stays of a run that has ended before it began, or of the inputs that it has lost.
transcripts::NewEntry record_of_queued(const Run& run, RunStatus status, std::int64_t ended_at,
                                       const std::string& error, std::span<const std::string> input) {
  json::ObjectWriter data;
  data.string("runId", run.id);
  data.string("status", name(status));
  data.integer("attempt", run.attempt);
  if (!run.retry_of.empty()) data.string("retryOf", run.retry_of);
  data.integer("endedAt", ended_at);
  if (!error.empty()) data.raw("error", error);
  data.raw("input", json::array_of(input));
  return transcripts::custom_entry("sessiond.run", data.text());
}

// The text that an assistant's entry says; empty: it is none, or says nothing.
std::string answer_in(const transcripts::NewEntry& entry) {
  if (entry.role != "assistant") return {};
  return transcripts::said_in(entry);
}

// Returns the part of the active run that is in memory only.
RunPulse pulse_of(const DecisionBuilder& builder, const Session& session, const SessionRuns& runs) {
  if (!builder.context().pulse_of) return {};
  return builder.context().pulse_of(builder.state().id(), session.key(), {runs.active->id, runs.fence});
}

// Returns the text that is held back, without keys. It is empty, too, while a commit that may store it is on its way.
std::string held_in(const SessionRuns& runs, const RunPulse& pulse) {
  return runs.text_seq > pulse.since ? std::string() : pulse.said_end.rest();
}

// Leaves out messages that wait in a run of their own.
void erase_queued(std::vector<Steered>& steered, const SessionRuns& runs) {
  std::erase_if(steered, [&runs](const Steered& each) {
    return std::ranges::any_of(runs.queued, [&](const Run& queued) { return is_in(queued.input, each.entry_id); });
  });
}

// Denies the open approvals of a run that ends.
void end_approvals(DecisionBuilder& builder, const Session& session, const Run& run) {
  for (Approval approval : builder.state().runs.find(session.key())->approvals.all()) {
    if (!approval.is_open()) continue;
    approval.resolve(false, "run_ended", builder.context().now);
    emit_resolved(builder, session, approval, run.topic);
  }
}

}  // namespace

AppendResult append_if_possible(DecisionBuilder& builder, Session& session, const AppendRequest& append,
                                const FetchedLines& lines) {
  const std::size_t before = builder.out.events.size();
  const std::size_t lines_before = builder.out.line_positions.size();
  auto appended = append_entries(builder, session, append, lines, false);
  if (appended) {
    take_counters(builder, session, before);
    return *std::move(appended);
  }
  builder.out.events.resize(before);
  builder.out.line_positions.resize(lines_before);
  return {};
}

void mark_superseded(transcripts::NewEntry& entry) {
  if (entry.role != "assistant") return;
  entry.body = json::apply(entry.body, {.set = {{"state", R"("superseded")"}}});
  entry.seen.reset();
}

transcripts::NewEntry input_note(const DecisionBuilder& builder, const Run& run, const std::vector<std::string>& ids) {
  json::ObjectWriter data;
  data.string("runId", run.id);
  data.integer("attempt", run.attempt);
  if (!run.retry_of.empty()) data.string("retryOf", run.retry_of);
  data.raw("entries", json::array_of(ids));
  if (builder.context().rules->shared) data.boolean("besideOthers", true);
  return transcripts::custom_entry("sessiond.input", data.text());
}

void take_counters(const DecisionBuilder& builder, Session& session, std::size_t from) {
  for (std::size_t i = from; i < builder.out.events.size(); ++i) {
    const Change& change = builder.out.events[i];
    if (const auto* said = change.as<MessageAppended>()) session.count(said->counted);
    if (change.edit && !change.edit->empty()) session.edit(*change.edit);
  }
}

std::vector<std::string> taken_of(const SessionRuns& runs, const std::vector<std::string>& confirmed) {
  std::vector<std::string> taken;
  for (const Steered& each : runs.steered)
    if (is_in(confirmed, each.entry_id)) taken.push_back(each.entry_id);
  return taken;
}

Run leftover_of(const DecisionBuilder& builder, const Run& active, const std::vector<Steered>& steered) {
  Run run;
  run.id = builder.context().ids->uuid();
  run.session_id = active.session_id;
  run.topic = active.topic;
  run.created_at = run.ready_at = builder.context().now;
  run.reply_to = active.reply_to;
  run.age_created_at = builder.context().age_now;
  run.origin = runs::Origin::steer_leftover;
  for (const Steered& each : steered) {
    run.input.push_back(each.entry_id);
    run.texts.push_back(policy::overflow_line(each.text));
  }
  return run;
}

std::optional<Run> again_of(const DecisionBuilder& builder, const Run& run) {
  Run again = run;
  again.deleted.clear();
  std::erase_if(again.input, [&run](const std::string& id) { return is_in(run.deleted, id); });
  if (again.input.empty() && !run.input.empty()) return {};
  again.retry_of = std::exchange(again.id, builder.context().ids->uuid());
  again.status = RunStatus::queued;
  again.origin = runs::Origin::retry;
  again.created_at = again.ready_at = builder.context().now;
  again.age_created_at = builder.context().age_now;
  again.started_at = 0;
  again.steps = 0;
  again.in_step = again.superseded = again.is_settled = false;
  again.runner.clear();
  again.token.clear();
  again.stopped_by.clear();
  if (again.model_source != "run") again.model.clear(), again.provider.clear();
  again.model_source.clear();
  again.collects = false;
  again.additional_context.clear();
  return again;
}

std::optional<Run> waits_again(const DecisionBuilder& builder, const SessionRuns& runs, const Run& run,
                               bool with_steered) {
  std::optional<Run> again = run.is_settled ? std::nullopt : again_of(builder, run);
  std::vector<Steered> steered = with_steered ? runs.steered : std::vector<Steered>();
  erase_queued(steered, runs);
  if (steered.empty()) return again;
  Run left = leftover_of(builder, run, steered);
  if (!again) return left;
  for (std::string& id : left.input)
    if (!is_in(again->input, id)) again->input.push_back(std::move(id));
  return again;
}

std::string_view unstored_text(const SessionRuns& runs, const RunPulse& pulse) {
  return runs.text_seq > pulse.since ? std::string_view() : pulse.text;
}

std::string partial_of(const SessionRuns& runs, const RunPulse& pulse, std::uint64_t most_bytes) {
  std::string text = runs.partial;
  text += unstored_text(runs, pulse);
  if (text.size() > most_bytes) text.resize(store::utf8_prefix(text, most_bytes));
  return text;
}

std::string said_by(const DecisionBuilder& builder, const Session& session) {
  const SessionRuns& runs = *builder.state().runs.find(session.key());
  const RunPulse pulse = pulse_of(builder, session, runs);
  return partial_of(runs, pulse, builder.context().rules->runs.partial_bytes) + held_in(runs, pulse);
}

void emit_run(DecisionBuilder& builder, Session& session, journal::EventType type, RunTold told, json::Edit edit) {
  session.edit(edit);
  const std::optional<std::string> topic = told.run.topic;
  builder.emit(type, session, std::move(told), topic, std::move(edit));
}

RunInputs no_change_of(const Run& run) { return {.run_id = run.id, .attempt = run.attempt, .ready_at = run.ready_at}; }

void emit_resolved(DecisionBuilder& builder, const Session& session, const Approval& approval,
                   const std::optional<std::string>& topic, json::Edit edit) {
  builder.emit(journal::EventType::approval_resolved, session, approval, topic, std::move(edit));
}

void start_run(DecisionBuilder& builder, Session& session, Run& run, bool overflow_told) {
  run.status = RunStatus::running;
  run.started_at = builder.context().now;
  run.texts.clear();
  json::Edit edit;
  edit.put_int("updatedAt", moved_to(session, run.started_at));
  edit.put_string("status", name(run.status));
  edit.put_int("startedAt", run.started_at);
  json::ObjectWriter active;
  active.string("runId", run.id);
  active.string("runner", run.runner);
  active.integer("startedAt", run.started_at);
  active.integer("attempt", run.attempt);
  edit.put("activeRun", active.text());
  edit.remove("endedAt");
  edit.remove("runtimeMs");
  emit_run(builder, session, journal::EventType::run_started, {.run = run, .overflow_told = overflow_told},
           std::move(edit));
}

Result<void> hand_over(DecisionBuilder& builder, Session& session, const Run& run,
                       const std::vector<std::string>& ids) {
  const std::size_t before = builder.out.events.size();
  const AppendRequest append{
      .topic = run.topic, .entries = {input_note(builder, run, ids)}, .by_daemon = true, .told = {.run_id = run.id}};
  TRY(append_entries(builder, session, append, {}, false));
  if (!builder.out.need) take_counters(builder, session, before);
  return {};
}

void stop_run(DecisionBuilder& builder, Session& session, Run& run, std::string_view reason) {
  run.status = RunStatus::aborting;
  json::Edit edit;
  edit.put_int("updatedAt", moved_to(session, builder.context().now));
  edit.put_string("status", name(run.status));
  emit_run(builder, session, journal::EventType::run_aborting, {.run = run, .reason = std::string(reason)},
           std::move(edit));
}

Result<AppendResult> end_active(DecisionBuilder& builder, Session& session, Run& run, RunEnd end,
                                const FetchedLines& lines) {
  const SessionRuns& runs = *builder.state().runs.find(session.key());
  std::vector<Steered> steered = runs.steered;  // what waits for an answer, and in no queued run
  std::erase_if(steered, [&](const Steered& each) { return is_in(end.steered, each.entry_id); });
  erase_queued(steered, runs);
  if (!end.partial)
    if (const std::string held = held_in(runs, pulse_of(builder, session, runs)); !held.empty())
      log_delta(builder, session, run, held);
  run.status = end.status;
  run.ended_at = builder.context().now;
  run.stop_reason = end.stop_reason;
  run.error = end.error;
  if (run.superseded) std::ranges::for_each(end.entries, mark_superseded);
  AppendRequest append{.topic = run.topic,
                       .entries = std::move(end.entries),
                       .in_list = true,
                       .by_daemon = !end.by_runner,
                       .run = end.by_runner ? &run : nullptr,
                       .is_too_long = is_too_long(run),
                       .told = {.run_id = run.id}};
  if (end.deliver) append.deliveries = plan_deliveries(builder, session, run.reply_to, {}, append.entries);
  std::optional<std::size_t> answer;  // among the entries
  for (std::size_t at = 0; at < append.entries.size(); ++at) {
    std::string said = answer_in(append.entries[at]);
    if (said.empty()) continue;
    run.response = std::move(said);
    answer = at;
  }
  const bool keeps_partial = !end.by_runner || (run.status == RunStatus::interrupted && !answer);
  if (!end.partial) end.partial = keeps_partial ? said_by(builder, session) : std::string();
  if (!end.partial->empty()) {
    answer = append.entries.size();
    append.entries.push_back(partial_entry(*end.partial, run));
    run.response = *end.partial;
  }
  append.entries.push_back(record_of(run, end.usage, end.retried));
  AppendResult appended;
  if (end.by_runner) {
    if (const auto taken = taken_of(runs, end.steered); !taken.empty()) TRY(hand_over(builder, session, run, taken));
    const std::size_t before = builder.out.events.size();
    TRY(appended, append_entries(builder, session, append, lines, false));
    if (!builder.out.need) take_counters(builder, session, before);
  } else {
    appended = append_if_possible(builder, session, append, lines);
  }
  if (builder.out.need) return appended;
  if (answer && *answer < appended.ids.size()) run.response_entry = appended.ids[*answer];
  end_approvals(builder, session, run);
  if (end.by_runner) {
    find_deliveries_made_before(builder.state(), session, append, appended);
    run.deliveries = deliveries_json(append.deliveries, appended.ids);
  }
  log_run_end(builder, session, run, std::span(append.entries).first(append.entries.size() - 1), lines);
  if (builder.out.need) return appended;
  const std::string transcript = builder.state().transcript_name_of(AgentState::file_of(session, run.topic));
  emit_run(builder, session, journal::EventType::run_finished, {.run = run, .by_runner = end.by_runner},
           ended_edit(session, run, transcript, run.ended_at));
  if (end.by_runner) take_steered_off_queue(builder, session, end.steered);
  call_stop(builder, session, run);
  if (!steered.empty())
    emit_run(builder, session, journal::EventType::run_queued, {.run = leftover_of(builder, run, steered)});
  return appended;
}

void end_queued(DecisionBuilder& builder, Session& session, std::vector<Run> runs, RunStatus status,
                const std::string& error, std::vector<DroppedInput> overflow) {
  std::map<std::optional<std::string>, AppendRequest> appends;  // by topic
  for (Run& run : runs) {
    run.status = status;
    run.ended_at = builder.context().now;
    run.error = error;
    AppendRequest& append = appends[run.topic];
    append.topic = run.topic;
    append.by_daemon = true;
    append.entries.push_back(record_of_queued(run, run.status, run.ended_at, run.error, run.input));
  }
  for (const auto& [topic, append] : appends) {
    append_if_possible(builder, session, append, {});
    if (builder.out.need) return;
  }
  for (Run& run : runs)
    emit_run(builder, session, journal::EventType::run_finished,
             {.run = std::move(run), .overflow = std::exchange(overflow, {})});
}

void record_lost(DecisionBuilder& builder, Session& session, const Run& run, std::span<const std::string> input,
                 const std::string& error) {
  const auto record = record_of_queued(run, RunStatus::dropped, builder.context().now, error, input);
  append_if_possible(builder, session, {.topic = run.topic, .entries = {record}, .by_daemon = true}, {});
}

void take_off_queue(DecisionBuilder& builder, Session& session, const std::vector<std::string>& ids,
                    const std::string& error) {
  const SessionRuns* runs = builder.state().runs.find(session.key());
  if (runs == nullptr) return;
  std::vector<Run> ended;
  for (const Run& queued : runs->queued) {
    RunInputs change = no_change_of(queued);
    std::ranges::copy_if(queued.input, std::back_inserter(change.left),
                         [&ids](const std::string& id) { return is_in(ids, id); });
    if (change.left.empty()) continue;
    if (change.left.size() == queued.input.size())
      ended.push_back(queued);
    else
      builder.emit(journal::EventType::run_queued, session, std::move(change), queued.topic);
  }
  end_queued(builder, session, std::move(ended), RunStatus::dropped, error);
}

void take_steered_off_queue(DecisionBuilder& builder, Session& session, const std::vector<std::string>& steered) {
  take_off_queue(builder, session, steered, error_json("steered", "the active run took it"));
}

Result<void> end_all(DecisionBuilder& builder, Session& session, std::string_view why,
                     const std::optional<std::string>& topic) {
  const SessionRuns* runs = builder.state().runs.find(session.key());
  if (runs == nullptr) return {};
  if (runs->active && (!topic || runs->active->topic == topic)) {
    Run run = *runs->active;
    RunEnd end{.stop_reason = "aborted", .error = error_json("session_reset", why)};
    for (const Steered& each : runs->steered) end.steered.push_back(each.entry_id);  // nothing of it goes on
    TRY(end_active(builder, session, run, std::move(end), FetchedLines{}));
    if (builder.out.need) return {};
  }
  std::vector<Run> ended;
  for (const Run& run : runs->queued)
    if (!topic || run.topic == topic) ended.push_back(run);
  end_queued(builder, session, std::move(ended), RunStatus::dropped, error_json("session_reset", why));
  return {};
}

void drop_runs(DecisionBuilder& builder, Session& session, std::string_view why) {
  const SessionRuns* runs = builder.state().runs.find(session.key());
  if (runs == nullptr) return;
  const auto end = [&](Run run, RunStatus status) {
    run.status = status;
    run.ended_at = builder.context().now;
    run.stop_reason = "aborted";
    run.error = error_json("session_reset", why);
    return run;
  };
  if (runs->active) {
    const Run run = end(*runs->active, RunStatus::interrupted);
    end_approvals(builder, session, run);
    emit_run(builder, session, journal::EventType::run_finished, {.run = run},
             ended_edit(session, run, "", run.ended_at));
  }
  for (const Run& queued : runs->queued)
    emit_run(builder, session, journal::EventType::run_finished, {.run = end(queued, RunStatus::dropped)});
}

std::optional<std::string> turn_limit(const Session& session, const json::Index& entry, const Rules& rules) {
  const runs::Cap configured = rules.runs.turn_cap == runs::unlimited ? runs::Cap{} : runs::Cap(rules.runs.turn_cap);
  const runs::Cap cap = runs::turn_cap(entry.find("turnCap").value_or(""), configured);
  const std::int64_t turns = entry.int_at("turnCount").value_or(0);
  if (!runs::is_reached(cap, turns)) return {};
  return fmt::format("{} has had {} turns, as many as turnCap allows", session.key(), turns);
}

std::optional<std::string> cost_limit(const Session& session, std::string_view agent, const Rules& rules) {
  const runs::CostCap* cap = rules.runs.cost_cap_of(agent);
  if (cap == nullptr || !cap->fails || session.cost_microcents.value_or(0) < cap->microcents) return {};
  return fmt::format("{} has cost {} microcents; agents.{}.maxCostMicrocents is {}", session.key(),
                     *session.cost_microcents, agent, cap->microcents);
}

std::optional<CapReached> cap_reached(const Session& session, const json::Index& entry, std::string_view agent,
                                      const Rules& rules) {
  if (auto why = turn_limit(session, entry, rules)) return CapReached{Code::turn_limit, std::move(*why)};
  if (auto why = cost_limit(session, agent, rules)) return CapReached{Code::cost_limit, std::move(*why)};
  return {};
}

void tell_refused(DecisionBuilder& builder, Session& session, Run run, Code code, std::string_view why) {
  run.status = RunStatus::failed;
  run.stop_reason = "error";
  run.error = error_json(name(code), why);
  run.ended_at = builder.context().now;
  emit_run(builder, session, journal::EventType::run_finished, {.run = std::move(run), .unlisted = true});
}

void answer_run(DecisionBuilder& builder, const Session& session, const Run& run, const RunAnswer& answer) {
  json::Edit more;
  if (answer.position) more.put_int("position", static_cast<std::int64_t>(*answer.position));
  if (answer.fence) {
    json::ObjectWriter lease;
    lease.integer("fence", static_cast<std::int64_t>(*answer.fence));
    lease.integer("expiresAt", builder.context().now + run.lease_ms);
    more.put("lease", lease.text());
  }
  if (answer.is_held) more.put("held", std::string(held_by_takeover));
  if (!answer.steered.empty()) more.put("steered", json::array_of(answer.steered));
  more.put_string("asOf", builder.as_of());
  builder.out.body = json::apply(run_json(session.key(), run), more);
  builder.out.status = answer.status;
}

void answer_refusal(DecisionBuilder& builder, Code code, std::string_view detail, std::string_view instance,
                    std::string_view request_id, std::string_view members) {
  builder.out.status = code == Code::hook_blocked ? 422 : 409;
  json::ObjectWriter problem(builder.out.body);
  problem.string("type", fmt::format("urn:sessiond:problem:{}", name(code)));
  problem.string("title", detail.substr(0, detail.find(':')));
  problem.integer("status", builder.out.status);
  problem.string("code", name(code));
  problem.string("detail", detail);
  problem.string("instance", instance);
  problem.boolean("retryable", false);
  problem.string("requestId", request_id);
  builder.out.body += members;
  problem.close();
}

}  // namespace sessiond::decide
