#include "daemon/decide/hooks.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "daemon/decide/run_steps.hpp"
#include "daemon/decide/session_log.hpp"
#include "store/try.hpp"
#include "store/utf8.hpp"

namespace sessiond::decide {
namespace {

constexpr std::size_t most_input_text = 64 << 10;  // bytes

HookTold told_of(const HookCall& call) {
  return {.id = call.id, .run_id = call.run_id, .name = call.name, .event = call.event};
}

// Returns the kind of opening that the first run of a session begins when nothing else is known of the session.
std::string_view first_source(const Session& session) {
  const std::string_view before = json::find(*session.entry_with_old_counters(), "previousSessions").value_or("");
  if (before.contains('{')) return "clear";
  return json::find(*session.entry_with_old_counters(), "forkedFrom") ? "fork" : "startup";
}

}  // namespace

void put_input(json::ObjectWriter& input, std::string_view name, std::string_view text) {
  const bool cut = text.size() > most_input_text;
  input.string(name, cut ? text.substr(0, store::utf8_prefix(text, most_input_text)) : text);
  if (cut) input.boolean("truncated", true);
}

std::vector<std::string> call_hooks(DecisionBuilder& builder, const Session& session, const HookEvent& event,
                                    bool ask) {
  std::vector<std::string> waited_for;
  const Context& context = builder.context();
  if (context.orders.hooks == nullptr) return waited_for;
  const std::int64_t longest = context.rules->runs.hook_timeout_ms;
  for (const auto& [name, hook] : context.orders.hooks->all()) {
    if (!hook.wants(builder.state().id(), event.name)) continue;
    const bool waits = hook.blocking && runs::can_block(event.name);
    if (waits && !ask) continue;
    HookTold called{.id = context.ids->uuid(),
                    .run_id = event.run_id,
                    .name = name,
                    .event = std::string(event.name),
                    .input = event.input.empty() ? "{}" : event.input,
                    .deadline = context.now + std::min(hook.timeout_ms.value_or(longest), longest),
                    .blocking = waits,
                    .on_timeout = waits && hook.blocks_on_timeout ? "block" : ""};
    if (waits) waited_for.push_back(called.id);
    builder.emit(journal::EventType::hook_called, session, std::move(called), event.topic);
  }
  return waited_for;
}

bool ask_hooks(DecisionBuilder& builder, const Session& session, const HookEvent& event, const Asking& asking) {
  if (asking.verdict) return false;
  const auto calls = call_hooks(builder, session, event, asking.ask);
  if (calls.empty()) return false;
  json::ObjectWriter body(builder.out.body);
  body.raw("calls", json::array_of(calls));
  body.close();
  builder.out.status = asked;
  return true;
}

void call_session_start(DecisionBuilder& builder, const Session& session, const Run& run) {
  const SessionRuns* runs = builder.state().runs.find(session.key());
  if (runs != nullptr && runs->opening.has_begun()) return;
  json::ObjectWriter input;
  input.string("source", runs == nullptr || runs->opening.next.empty() ? first_source(session) : runs->opening.next);
  call_hooks(builder, session, {.name = "SessionStart", .input = input.text(), .run_id = run.id, .topic = run.topic});
}

void call_stop(DecisionBuilder& builder, const Session& session, const Run& run) {
  if (run.status != RunStatus::done && run.status != RunStatus::failed) return;
  if (builder.context().orders.hooks == nullptr || builder.context().orders.hooks->all().empty()) return;
  json::ObjectWriter input;
  if (run.status == RunStatus::failed) {
    input.string("reason", run.error.empty() ? "" : json::string_at(run.error, "code").value_or(""));
  } else {
    put_input(input, "response", run.response);
    input.string("last_assistant_message", run.response.substr(0, store::utf8_prefix(run.response, most_input_text)));
    input.boolean("stop_hook_active", false);
  }
  call_hooks(builder, session,
             {.name = run.status == RunStatus::done ? "Stop" : "StopFailure",
              .input = input.text(),
              .run_id = run.id,
              .topic = run.topic});
}

Result<Decision> decide(const AgentState& state, const AnswerHook& command, const Context& context) {
  DecisionBuilder builder(state, context);
  TRY(const Session* session, resolve(state, command.target));
  HookTold answered = told_of(command.call);
  answered.answer = command.answer == "{}" ? "" : command.answer;
  builder.out.body = json::to_json(answered);
  builder.emit(journal::EventType::hook_answered, *session, std::move(answered));
  return std::move(builder.out);
}

Result<Decision> decide(const AgentState& state, const ExpireHook& command, const Context& context) {
  DecisionBuilder builder(state, context);
  builder.out.status = 204;
  const Session* session = state.find_key(command.target.key);
  if (session == nullptr) return std::move(builder.out);
  builder.emit(journal::EventType::hook_expired, *session, told_of(command.call));
  return std::move(builder.out);
}

Result<Decision> decide(const AgentState& state, const AskPreCompact& command, const Context& context) {
  DecisionBuilder builder(state, context);
  TRY(const Session* session, resolve_open(state, command.target));
  builder.out.status = 204;
  json::ObjectWriter input;
  if (command.instructions.empty())
    input.raw("instructions", "null");
  else
    put_input(input, "instructions", command.instructions);
  ask_hooks(builder, *session, {.name = "PreCompact", .input = input.text(), .topic = command.topic}, command.hooks);
  return std::move(builder.out);
}

Result<Decision> decide(const AgentState& state, const ShutDown& command, const Context& context) {
  DecisionBuilder builder(state, context);
  TRY(const Session* there, resolve(state, command.target));
  Session session = *there;
  const SessionRuns* runs = state.runs.find(session.key());
  const bool finds_open = runs != nullptr && runs->opening.is_open;
  if (!command.last_step) {
    builder.out.status = 204;
    if (runs == nullptr) return std::move(builder.out);
    end_queued(builder, session, {runs->queued.begin(), runs->queued.end()}, RunStatus::dropped,
               error_json("shutdown", command.reason));
    if (builder.out.need) return std::move(builder.out);
    if (runs->active && runs->active->status == RunStatus::running) {
      Run run = *runs->active;
      stop_run(builder, session, run, command.reason);
    }
    return std::move(builder.out);
  }
  if (runs != nullptr && runs->active) {
    TRY(end_all(builder, session, "the session is shut down"));
    if (builder.out.need) return std::move(builder.out);
  }
  json::ObjectWriter body(builder.out.body);
  if (!finds_open) {
    const bool was_shut_down = runs != nullptr && runs->opening.shut_down_at != 0;
    if (was_shut_down) body.string("reason", runs->opening.reason);
    if (!was_shut_down) body.raw("reason", "null");
    body.raw("at", was_shut_down ? std::to_string(runs->opening.shut_down_at) : "null");
  } else {
    json::Edit edit;
    edit.put_int("updatedAt", moved_to(session, context.now));
    builder.update(session, std::move(edit), ShutdownTold{.reason = command.reason, .at = context.now});
    log_shutdown(builder, session, command.reason);
    if (builder.out.need) return std::move(builder.out);
    json::ObjectWriter input;
    input.string("reason", command.reason);
    call_hooks(builder, session, {.name = "SessionEnd", .input = input.text()});
    body.string("reason", command.reason);
    body.integer("at", context.now);
  }
  body.boolean("first", finds_open);
  body.string("asOf", builder.as_of());
  body.close();
  return std::move(builder.out);
}

}  // namespace sessiond::decide
