// Decisions about the run that is active: what its runner tells, how it ends, how it is stopped.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "daemon/decide/run_steps.hpp"
#include "daemon/decide/session_log.hpp"
#include "store/try.hpp"
#include "store/utf8.hpp"

namespace sessiond::decide {
namespace {

// The durable kinds of events that a runner tells, and the members that are taken of them.
struct EventKind {
  std::string_view name;
  journal::EventType type;
  std::array<std::string_view, 5> members;
};
constexpr std::array<EventKind, 4> kinds{
    {{"step.started", journal::EventType::step_started, {"step"}},
     {"step.finished", journal::EventType::step_finished, {"step", "text", "toolCalls"}},
     {"tool.started", journal::EventType::tool_started, {"tool", "args", "callId"}},
     {"tool.finished", journal::EventType::tool_finished, {"tool", "callId", "success", "denied", "resultData"}}}};

class EventsDecision {
 public:
  EventsDecision(const AgentState& state, const RunEvents& command, const Context& context, const FetchedLines& lines)
      : state_(state), command_(command), context_(context), lines_(lines), builder_(state, context) {}

  Result<Decision> decide() {
    TRY(const auto there, resolve(state_, command_.target));
    Session session = *there;
    TRY(const auto* held, held_run(state_, session, command_.hold, context_.actor));
    run_ = *held;
    runs_ = state_.runs.find(session.key());
    pending_ = unstored_text(*runs_, command_.pulse);
    TRY(const bool is_new, check_call());
    if (is_new) {
      for (std::size_t i = 0; i < command_.events.size(); ++i) TRY(take(session, command_.events[i], i));
      if (builder_.out.need) return std::move(builder_.out);
      TRY(tell_call(session));
      if (builder_.out.need) return std::move(builder_.out);
      if (over_limit_) return end_over_limit(session);
    }
    answer();
    return std::move(builder_.out);
  }

 private:
  // Returns false for a call that was taken before. out_of_order when one before it is missing.
  Result<bool> check_call() const {
    if (!command_.n) return true;
    const std::uint64_t taken = std::max(runs_->calls, command_.pulse.calls);
    if (*command_.n <= taken) return false;
    if (command_.pulse.known && *command_.n != taken + 1)
      return fail(Code::out_of_order, fmt::format("n is {}, but the next call is {}", *command_.n, taken + 1));
    return true;
  }

  Result<void> take(Session& session, const RunEvent& event, std::size_t index) {
    if (event.type == "text.delta") {
      const std::string text = json::string_at(event.body, "text").value_or("");
      text_ += text;
      said_ += text;
      log_delta(builder_, session, run_, text);
      return {};
    }
    if (event.type == "context.updated") return take_context(session, event, index);
    const auto kind = std::ranges::find(kinds, event.type, &EventKind::name);
    if (kind == kinds.end() || over_limit_) return {};  // the others are not stored
    store_text(session);                                // what was said before
    if (kind->type != journal::EventType::step_started) {
      emit(session, kind->type, event.body, {});
      return {};
    }
    const std::int64_t step = json::int_at(event.body, "step").value_or(0);
    if (step != run_.steps + 1)
      return fail_at(fmt::format("/events/{}/step", index),
                     fmt::format("is {}; the next step is {}", step, run_.steps + 1));
    if (run_.max_steps && *run_.max_steps != 0 && step > *run_.max_steps) {
      over_limit_ = true;
      return {};
    }
    run_.steps = step;
    json::Edit edit;
    edit.put_int("updatedAt", moved_to(session, context_.now));
    if (step == 1) edit.put("systemSent", "true");
    json::ObjectWriter active;
    active.string("runId", run_.id);
    active.string("runner", run_.runner);
    active.integer("startedAt", run_.started_at);
    active.integer("attempt", run_.attempt);
    active.integer("steps", step);
    edit.put("activeRun", active.text());
    emit(session, kind->type, event.body, std::move(edit));
    return {};
  }

  // Keeps in the entry how full the window was, by the runner's estimate and by the provider's count.
  Result<void> take_context(Session& session, const RunEvent& event, std::size_t index) {
    const std::string phase = json::string_at(event.body, "phase").value_or("");
    const auto tokens = json::int_at(event.body, "tokens");
    if (phase != "estimate" && phase != "exact")
      return fail_at(fmt::format("/events/{}/phase", index), "must be estimate or exact");
    if (!tokens || *tokens < 0) return fail_at(fmt::format("/events/{}/tokens", index), "must be a number of tokens");
    const std::string last =
        json::compact(json::find(*session.entry_with_old_counters(), "contextLast").value_or("{}"));
    json::Edit update;
    update.put_int(phase, *tokens);
    update.put_int("at", context_.now);
    json::Edit edit;
    edit.put_int("updatedAt", moved_to(session, context_.now));
    edit.put("contextLast", json::apply(json::kind(last) == json::Kind::object ? last : "{}", update));
    session.edit(edit);
    builder_.emit(journal::EventType::run_progress, session, progress(), run_.topic, std::move(edit));
    return {};
  }

  // Emits an event as the runner told it, with the run's id.
  void emit(Session& session, journal::EventType type, std::string_view body, json::Edit edit) {
    const EventKind& kind = *std::ranges::find(kinds, type, &EventKind::type);
    json::ObjectWriter told;
    for (const json::Member& member : json::members(body)) {
      const std::string name = json::unescape(member.name);
      if (std::ranges::find(kind.members, name) == kind.members.end() || name.empty()) continue;
      told.raw(name, json::compact(member.value));
    }
    session.edit(edit);
    const std::string sent = told.text();
    builder_.emit(type, session,
                  RunnerTold{.run_id = run_.id, .call = command_.n.value_or(0), .as_sent = sent == "{}" ? "" : sent},
                  run_.topic, std::move(edit));
  }

  // A run.progress of this call.
  RunProgress progress() const { return {.run_id = run_.id, .call = command_.n.value_or(command_.pulse.calls)}; }

  // Stores the text that is known so far as run.progress.
  void store_text(Session& session) {
    std::string more = std::exchange(pending_, "") + std::exchange(text_, "");
    if (more.empty()) return;
    const std::size_t stored = stored_bytes_.value_or(runs_->partial.size());
    const std::size_t room = context_.rules->runs.partial_bytes - std::min(context_.rules->runs.partial_bytes, stored);
    more.resize(store::utf8_prefix(more, room));
    if (more.empty()) return;
    const std::size_t points = stored_points_.value_or(store::count_code_points(runs_->partial));
    stored_bytes_ = stored + more.size();
    stored_points_ = points + store::count_code_points(more);
    RunProgress told = progress();
    told.said = {.at = points, .at_byte = stored, .text = std::move(more)};
    builder_.emit(journal::EventType::run_progress, session, std::move(told), run_.topic);
  }

  // Stores all of a call, or nothing of it: its number and its text are then kept in memory.
  Result<void> tell_call(Session& session) {
    const bool stores = !builder_.out.events.empty() || !command_.steered.empty() || command_.store_text;
    if (!stores) return {};
    store_text(session);
    if (command_.steered.empty()) return {};
    if (const auto taken = taken_of(*runs_, command_.steered); !taken.empty())
      TRY(hand_over(builder_, session, run_, taken));
    RunProgress told = progress();
    told.steered = command_.steered;
    builder_.emit(journal::EventType::run_progress, session, std::move(told), run_.topic);
    take_steered_off_queue(builder_, session, command_.steered);
    return {};
  }

  Result<Decision> end_over_limit(Session& session) {
    const std::string why = fmt::format("the run has had {} steps, as many as maxSteps allows", run_.steps);
    const std::optional<Run> again = run_.superseded ? waits_again(builder_, *runs_, run_) : std::nullopt;
    TRY(end_active(builder_, session, run_,
                   {.status = RunStatus::failed,
                    .stop_reason = "error",
                    .error = error_json("turn_limit", why),
                    .partial = partial_of(*runs_, command_.pulse, context_.rules->runs.partial_bytes) + said_ +
                               command_.pulse.said_end.rest(),
                    .retried = again.has_value()},
                   lines_));
    if (builder_.out.need) return std::move(builder_.out);
    if (again) emit_run(builder_, session, journal::EventType::run_queued, {.run = *again});
    answer_refusal(builder_, Code::turn_limit, why, command_.instance, command_.request_id, R"(,"limit":"maxSteps")");
    return std::move(builder_.out);
  }

  void answer() {
    json::ObjectWriter out(builder_.out.body);
    out.integer("expiresAt", context_.now + run_.lease_ms);
    out.boolean("abort", run_.status == RunStatus::aborting);
    std::string steer = "[";
    for (const Steered& each : runs_->steered) {
      if (std::ranges::find(command_.steered, each.entry_id) != command_.steered.end()) continue;
      json::ObjectWriter one;
      one.string("entryId", each.entry_id);
      one.string("text", each.text);
      steer.append(steer.size() > 1 ? "," : "").append(one.text());
    }
    out.raw("steer", steer + "]");
    out.close();
    builder_.out.status = 200;
  }

  const AgentState& state_;
  const RunEvents& command_;
  const Context& context_;
  const FetchedLines& lines_;
  DecisionBuilder builder_;
  Run run_{};
  const SessionRuns* runs_ = nullptr;
  std::string pending_{};  // said before, and not stored yet
  std::string text_{};     // said in this call, and not stored yet
  std::string said_{};     // all that was said in this call
  std::optional<std::size_t> stored_bytes_{}, stored_points_{};
  bool over_limit_ = false;
};

}  // namespace

std::unexpected<Problem> lease_lost(std::string_view key, const RunHold& hold) {
  return fail(
      Code::lease_lost,
      fmt::format("this token does not hold the run {} of {} with fence {}: it has ended, or another runner has "
                  "it. Stop the work, and write nothing of it",
                  hold.run_id, key, hold.fence));
}

Result<const Run*> held_run(const AgentState& state, const Session& session, const RunHold& hold,
                            std::string_view actor) {
  const SessionRuns* runs = state.runs.find(session.key());
  const bool held = runs != nullptr && runs->active && runs->active->id == hold.run_id && runs->fence == hold.fence &&
                    runs->active->token == actor;
  if (!held) return lease_lost(session.key(), hold);
  return &*runs->active;
}

bool holds_run(const AgentState& state, const RunHold& hold, std::string_view actor) {
  return std::ranges::any_of(state.runs.active(), [&](const std::string& key) {
    const SessionRuns& runs = *state.runs.find(key);
    return runs.active->id == hold.run_id && runs.fence == hold.fence && runs.active->token == actor;
  });
}

bool has_finished(const AgentState& state, const Session& session, const RunHold& hold, std::string_view actor) {
  const SessionRuns* runs = state.runs.find(session.key());
  const Finished* finished = runs == nullptr ? nullptr : runs->find_finished(hold.run_id);
  return finished != nullptr && finished->fence == hold.fence && finished->token == actor &&
         runs->find_ended(hold.run_id) != nullptr;
}

Result<void> check_no_active_run(const AgentState& state, const Session& session) {
  const SessionRuns* runs = state.runs.find(session.key());
  if (runs == nullptr || !runs->active) return {};
  return std::unexpected(
      Problem{.code = Code::session_busy,
              .detail = fmt::format("{} has the active run {}, and runs.exclusive is set: name it in X-Run",
                                    session.key(), runs->active->id),
              .members = {{"runId", json::quote(runs->active->id)}}});
}

Result<Decision> decide(const AgentState& state, const RunEvents& command, const Context& context,
                        const FetchedLines& lines) {
  return EventsDecision(state, command, context, lines).decide();
}

Result<Decision> decide(const AgentState& state, const FinishRun& command, const Context& context,
                        const FetchedLines& lines) {
  DecisionBuilder builder(state, context);
  TRY(const auto there, resolve(state, command.target));
  Session session = *there;
  const SessionRuns* runs = state.runs.find(session.key());
  if (has_finished(state, session, command.hold, context.actor)) {
    builder.out.body = *runs->find_ended(command.hold.run_id);
    return std::move(builder.out);
  }
  TRY(const auto* held, held_run(state, session, command.hold, context.actor));
  Run run = *held;
  const bool aborting = run.status == RunStatus::aborting;
  if (command.status == RunStatus::interrupted && !aborting)
    return fail_at("/status", "is interrupted, but nobody has stopped the run");
  RunEnd end{.status = aborting ? RunStatus::interrupted : command.status,
             .stop_reason = command.stop_reason,
             .error = command.error,
             .entries = command.entries,
             .usage = command.usage,
             .steered = command.steered,
             .by_runner = true,
             .deliver = !run.superseded && command.deliver.value_or(!run.reply_to.empty())};
  const std::optional<Run> again = run.superseded ? waits_again(builder, *runs, run) : std::nullopt;
  end.retried = again.has_value();
  TRY(end_active(builder, session, run, std::move(end), lines));
  if (builder.out.need) return std::move(builder.out);
  if (again) emit_run(builder, session, journal::EventType::run_queued, {.run = *again});
  builder.out.body = run_json(session.key(), run);
  return std::move(builder.out);
}

Result<Decision> decide(const AgentState& state, const AbortRun& command, const Context& context, const FetchedLines&) {
  DecisionBuilder builder(state, context);
  TRY(const auto there, resolve(state, command.target));
  Session session = *there;
  const SessionRuns* runs = state.runs.find(session.key());
  builder.out.status = 204;
  const bool names_active =
      runs != nullptr && runs->active && (command.run_id.empty() || runs->active->id == command.run_id);
  if (!names_active) {
    if (command.run_id.empty()) return std::move(builder.out);
    if (const Run* queued = runs == nullptr ? nullptr : runs->find_queued(command.run_id)) {
      Run run = *queued;
      run.stop_reason = "aborted";
      end_queued(builder, session, {run}, RunStatus::interrupted, error_json("aborted", "stopped before it began"));
      if (builder.out.need) return std::move(builder.out);
      run.status = RunStatus::interrupted;
      run.ended_at = context.now;
      answer_run(builder, session, run, {});
      return std::move(builder.out);
    }
    if (runs == nullptr || runs->find_ended(command.run_id) == nullptr)
      return fail(Code::run_not_found, fmt::format("{} has no run {}", session.key(), command.run_id));
    return std::move(builder.out);
  }
  Run run = *runs->active;
  if (run.status == RunStatus::running) {
    run.stopped_by = context.actor;
    stop_run(builder, session, run, command.reason);
  }
  answer_run(builder, session, run, {.status = 202});
  return std::move(builder.out);
}

Result<Decision> decide(const AgentState& state, const EndRun& command, const Context& context,
                        const FetchedLines& lines) {
  DecisionBuilder builder(state, context);
  builder.out.status = 204;
  const Session* there = state.find_key(command.target.key);
  const SessionRuns* runs = there == nullptr ? nullptr : state.runs.find(there->key());
  if (runs == nullptr) return std::move(builder.out);
  Session session = *there;
  if (command.why == EndRun::Why::too_old) {
    if (runs->takeover) return std::move(builder.out);  // it stands still
    if (const Run* queued = runs->find_queued(command.hold.run_id))
      end_queued(builder, session, {*queued}, RunStatus::expired, error_json("too_old", "no runner took it in time"));
    return std::move(builder.out);
  }
  if (!runs->active || runs->active->id != command.hold.run_id || runs->fence != command.hold.fence)
    return std::move(builder.out);
  Run run = *runs->active;
  RunEnd end{.stop_reason = "aborted"};
  const bool retries = command.why == EndRun::Why::lease_lost && run.status == RunStatus::running &&
                       run.attempt < context.rules->runs.max_attempts;
  std::optional<Run> again = run.superseded ? waits_again(builder, *runs, run)
                             : retries      ? again_of(builder, run)
                                            : std::nullopt;
  if (again && retries) ++again->attempt;
  if (run.status == RunStatus::aborting) {
    end.error = error_json("aborted", "the runner did not end it in time");
  } else if (command.why == EndRun::Why::idle_timeout) {
    end.status = RunStatus::failed;
    end.error =
        error_json("provider_idle_timeout", fmt::format("the model said nothing for {} ms", run.idle_timeout_ms));
  } else {
    end.error = error_json("lease_lost", fmt::format("the runner was silent for {} ms", run.lease_ms));
  }
  end.retried = again.has_value();
  TRY(end_active(builder, session, run, std::move(end), lines));
  if (!builder.out.need && again) emit_run(builder, session, journal::EventType::run_queued, {.run = *again});
  return std::move(builder.out);
}

}  // namespace sessiond::decide
