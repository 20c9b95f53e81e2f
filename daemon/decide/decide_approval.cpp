// Decisions about approvals: what a runner asks, who answers, what is forgotten.
#include <fmt/format.h>

#include "daemon/decide/approval_commands.hpp"
#include "daemon/decide/run_steps.hpp"
#include "policy/runs/approval.hpp"
#include "store/names.hpp"
#include "store/try.hpp"

namespace sessiond::decide {
namespace {

std::string field_of(const Session& session, std::string_view name) {
  return std::string(json::find(*session.entry_with_old_counters(), name).value_or(""));
}

Decision answer_approval(DecisionBuilder& builder, const Session& session, const Approval& approval, int status) {
  std::string& body = builder.out.body;
  body = approval_json(builder.state().id(), session.key(), approval);
  body.pop_back();
  body += fmt::format(R"(,"asOf":{}}})", json::quote(builder.as_of()));
  builder.out.status = status;
  return std::move(builder.out);
}

std::optional<std::string> topic_of_run(const SessionRuns& runs) {
  return runs.active ? runs.active->topic : std::nullopt;
}

// A question that came before under the same call id. validation_failed when it was another one: an answer must never
// count for what was not shown to whoever gave it.
Result<const Approval*> asked_before(const SessionRuns& runs, const AskApproval& command) {
  const Approval* before = runs.approvals.find_call(command.hold.run_id, command.call_id);
  if (before == nullptr) return nullptr;
  if (before->tool != command.tool || !json::same(before->args, command.args))
    return fail_at("/callId", "this run has asked about another tool or other args under this call id");
  return before;
}

// Decides what needs no person; leaves the approval open otherwise.
void rule(Approval& approval, const AskApproval& command, const Session& session, const Context& context) {
  if (command.hooks.verdict && command.hooks.verdict->blocked) {
    approval.resolve(false, "hook", context.now);
    approval.reason = command.hooks.verdict->reason;
    return;
  }
  const std::string guardrails = field_of(session, "guardrails");
  const std::string allowed_tools = field_of(session, "allowedTools");
  const runs::Ruling ruling = runs::rule_on(
      {.tool = command.tool, .args = command.args, .guardrails = guardrails, .allowed_tools = allowed_tools});
  if (ruling.answer != runs::Answer::ask) {
    approval.resolve(ruling.answer == runs::Answer::allow, runs::name(ruling.source), context.now);
  } else if (context.rules->runs.require_approver && !command.can_be_seen) {
    approval.resolve(false, "default", context.now);
  }
}

// Returns where the run's answer goes. A session that answers in another channel does not name it, since tokens of its
// own see the approval.
std::string shown_address(const Session& session, const Run& run) {
  const auto channel = json::string_at(run.reply_to, "channel");
  const bool is_seen = channel && (!session.channels.empty() || store::equals_nocase(*channel, session.channel));
  return is_seen ? run.reply_to : "";
}

std::string hook_input(const AskApproval& command) {
  json::ObjectWriter input;
  input.string("tool", command.tool);
  input.raw("args", command.args);
  input.string_or_null("callId", command.call_id.empty() ? std::nullopt : std::optional(command.call_id));
  return input.text();
}

}  // namespace

Result<Decision> decide(const AgentState& state, const AskApproval& command, const Context& context) {
  DecisionBuilder builder(state, context);
  TRY(const auto there, resolve(state, command.target));
  Session session = *there;
  TRY(const Run* run, held_run(state, session, command.hold, context.actor));
  const SessionRuns& runs = *state.runs.find(session.key());
  TRY(const Approval* before, asked_before(runs, command));
  if (before != nullptr) return answer_approval(builder, session, *before, before->is_open() ? 201 : 200);
  const HookEvent about{.name = "PreToolUse", .input = hook_input(command), .run_id = run->id, .topic = run->topic};
  if (ask_hooks(builder, session, about, command.hooks)) return std::move(builder.out);
  const std::int64_t timeout = command.timeout_ms.value_or(context.rules->runs.approval_timeout_ms);
  Approval approval{.id = context.ids->uuid(),
                    .run_id = run->id,
                    .tool = command.tool,
                    .args = command.args,
                    .call_id = command.call_id,
                    .asked_by = std::string(context.actor),
                    .address = shown_address(session, *run),
                    .topic = run->topic,
                    .asked_at = context.now,
                    .deadline = context.now + timeout,
                    .age_deadline = command.age_now + timeout};
  rule(approval, command, session, context);
  if (approval.is_open() && runs.approvals.open() >= ApprovalList::most_open)
    return fail(Code::too_many_requests,
                fmt::format("the run has {} open approvals; wait until one is decided", ApprovalList::most_open));
  if (!runs.approvals.has_room_for(approval))
    return fail(Code::too_many_requests, "the run has asked as much as is kept of one run; end it, and start another");
  using journal::EventType;
  builder.emit(approval.is_open() ? EventType::approval_requested : EventType::approval_resolved, session, approval,
               run->topic);
  return answer_approval(builder, session, approval, approval.is_open() ? 201 : 200);
}

Result<Decision> decide(const AgentState& state, const AnswerApproval& command, const Context& context) {
  DecisionBuilder builder(state, context);
  TRY(const auto there, resolve(state, command.target));
  Session session = *there;
  const SessionRuns* runs = state.runs.find(session.key());
  const Approval* found = runs == nullptr ? nullptr : runs->approvals.find(command.id);
  if (found == nullptr)
    return fail(Code::approval_not_found, fmt::format("{} has no approval {}", session.key(), command.id));
  if (!found->is_open()) return answer_approval(builder, session, *found, 200);
  if (runs->active && runs->active->token == context.actor)
    return fail(Code::forbidden, "the token that asked may not answer; use another token");
  Approval approval = *found;
  approval.resolve(command.allow, "answer", context.now);
  approval.by = context.actor;
  approval.reason = command.reason;
  json::Edit edit;
  const std::string allowed = field_of(session, "allowedTools");
  if (command.allow && command.for_session && !runs::is_always_asked(approval.tool, field_of(session, "guardrails"))) {
    std::string more = runs::with_allowed_tool(allowed, approval.tool);
    if (allowed.empty() || !json::same(allowed, more)) {
      edit.put_int("updatedAt", moved_to(session, context.now));
      edit.put("allowedTools", std::move(more));
      const std::string& entry = *session.entry_with_old_counters();
      TRY(check_entry_growth(builder, entry, json::apply(entry, edit), "/decision"));
    }
  }
  emit_resolved(builder, session, approval, topic_of_run(*runs), std::move(edit));
  return answer_approval(builder, session, approval, 200);
}

Result<Decision> decide(const AgentState& state, const ExpireApproval& command, const Context& context) {
  DecisionBuilder builder(state, context);
  builder.out.status = 204;
  const Session* session = state.find_key(command.target.key);
  const SessionRuns* runs = session == nullptr ? nullptr : state.runs.find(session->key());
  const Approval* found = runs == nullptr ? nullptr : runs->approvals.find(command.id);
  if (found == nullptr || !found->is_open()) return std::move(builder.out);
  Approval approval = *found;
  approval.resolve(false, "default", context.now);
  emit_resolved(builder, *session, approval, topic_of_run(*runs));
  return std::move(builder.out);
}

Result<Decision> decide(const AgentState& state, const ForgetAllowedTools& command, const Context& context) {
  DecisionBuilder builder(state, context);
  TRY(const auto there, resolve(state, command.target));
  Session session = *there;
  builder.out.status = 204;
  const std::string allowed = field_of(session, "allowedTools");
  if (allowed.empty()) return std::move(builder.out);
  std::string left = "[]";
  for (const std::string_view element : json::elements(command.tool ? allowed : "[]")) {
    const auto tool = json::as_string(element);
    if (tool && *tool != *command.tool) left = runs::with_allowed_tool(left, *tool);
  }
  if (json::same(left, allowed)) return std::move(builder.out);
  json::Edit edit;
  edit.put_int("updatedAt", moved_to(session, context.now));
  if (left == "[]")
    edit.remove("allowedTools");
  else
    edit.put("allowedTools", std::move(left));
  builder.update(session, std::move(edit));
  return std::move(builder.out);
}

}  // namespace sessiond::decide
