// Decisions that start a run, or let it wait.
#include <fmt/format.h>

#include <algorithm>

#include "daemon/decide/run_queue.hpp"
#include "daemon/decide/session_log.hpp"
#include "daemon/decide/takeover_steps.hpp"
#include "store/delivery/delivery.hpp"
#include "store/try.hpp"

namespace sessiond::decide {
namespace {

constexpr std::string_view prompt_event = "UserPromptSubmit";

// Chooses the model of a run that starts, which keeps it.
void choose_model(const DecisionBuilder& builder, const Session& session, Run& run) {
  const auto choice =
      model_of_next_run(session, builder.state().id(), builder.context().rules->runs, {run.model, run.provider});
  run.model = choice.names.model;
  run.provider = choice.names.provider;
  run.model_source = name(choice.source);
}

void take_terms(Run& run, const RunTerms& terms, const Context& context) {
  const runs::Settings& settings = context.rules->runs;
  run.runner = terms.runner.empty() ? std::string(context.actor) : terms.runner;
  run.token = context.actor;
  run.lease_ms = terms.lease_ms.value_or(settings.lease_ms);
  run.idle_timeout_ms = terms.idle_timeout_ms.value_or(settings.idle_timeout_ms);
  if (terms.max_steps) run.max_steps = terms.max_steps;
  if (!run.max_steps) run.max_steps = settings.max_steps;
}

std::unexpected<Problem> busy(const Session& session, const std::string& run_id) {
  return std::unexpected(Problem{.code = Code::session_busy,
                                 .detail = fmt::format("{} has the active run {}", session.key(), run_id),
                                 .members = {{"runId", json::quote(run_id)}}});
}

bool is_wanted(const Context& context, const AgentState& state) {
  return context.orders.hooks != nullptr && context.orders.hooks->is_wanted(state.id(), prompt_event);
}

HookEvent prompt_hook(const Run& run, std::string_view prompt) {
  json::ObjectWriter input;
  put_input(input, "prompt", prompt);
  return {.name = prompt_event, .input = input.text(), .run_id = run.id, .topic = run.topic};
}

// The text of a queued run's input. Nothing: builder.out.need asks for it.
std::optional<std::string> prompt_of(DecisionBuilder& builder, const Session& session, const Run& run,
                                     const FetchedLines& lines) {
  std::string prompt;
  for (const std::string& id : run.input) {
    const auto line = lines.find(id);
    if (line == lines.end()) {
      builder.out.need = Need{Need::What::lines, AgentState::file_of(session, run.topic), run.input};
      return {};
    }
    const std::string_view message = json::find(line->second.line, "message").value_or("{}");
    if (!prompt.empty()) prompt += '\n';
    prompt += transcripts::text_of(json::find(message, "content").value_or("\"\""));
  }
  return prompt;
}

class RunStart {
 public:
  RunStart(const AgentState& state, const StartRun& command, const Context& context, const FetchedLines& lines)
      : state_(state), command_(command), context_(context), lines_(lines), builder_(state, context) {}

  Result<Decision> decide() {
    TRY(const auto there, resolve_open(state_, command_.target));
    Session session = *there;
    runs_ = state_.runs.find(session.key());
    const Takeover* takeover = takeover_of(state_, session);
    if (takeover != nullptr && !command_.queue_only) return taken_over(session, *takeover);
    TRY(read_reply_to(session));
    TRY(make_run(session));
    if (const auto cap =
            cap_reached(session, json::Index(*session.entry_with_old_counters()), state_.id(), *context_.rules)) {
      tell_refused(builder_, session, run_, cap->code, cap->why);
      answer_refusal(builder_, cap->code, cap->why, command_.instance, command_.request_id,
                     cap->code == Code::turn_limit ? R"(,"limit":"turnCap")" : R"(,"limit":"maxCostMicrocents")");
      return std::move(builder_.out);
    }
    const bool waits = command_.queue_only || (runs_ != nullptr && runs_->active) || !command_.asked_about.empty();
    return waits ? wait(session) : start(session);
  }

 private:
  // Reads where the answer goes. A channel on which nothing of the session answers is a mistake. Of the session's own
  // address the account and the thread may be left out.
  Result<void> read_reply_to(const Session& session) {
    if (!command_.reply_to) return {};
    delivery::Delivery to = *command_.reply_to;
    const auto answers_there = [&to](const Run& run) { return json::string_at(run.reply_to, "channel") == to.channel; };
    const bool is_of_run = runs_ != nullptr && ((runs_->active && answers_there(*runs_->active)) ||
                                                std::ranges::any_of(runs_->queued, answers_there));
    const delivery::Delivery own = delivery::read_delivery(json::Index(*session.entry_with_old_counters()));
    if (!is_of_run && own.channel != to.channel)
      return fail_at("/replyTo/channel", own.channel ? fmt::format("the session answers on {}", *own.channel)
                                                     : "the session has no channel to answer on");
    if (own.channel == to.channel && own.to == to.to) {
      if (!to.account_id) to.account_id = own.account_id;
      if (!to.thread_id) to.thread_id = own.thread_id;
    }
    reply_to_ = reply_to_of(to);
    return {};
  }

  Result<void> make_run(const Session& session) {
    run_.id = command_.run_id.empty() ? context_.ids->uuid() : command_.run_id;
    const bool is_asked_about = !run_.id.empty() && run_.id == command_.asked_about;
    if (is_asked_about || (runs_ != nullptr && ((runs_->active && runs_->active->id == run_.id) ||
                                                runs_->find_queued(run_.id) || runs_->find_ended(run_.id))))
      return fail(Code::run_exists, fmt::format("{} has a run {} already", session.key(), run_.id));
    run_.session_id = session.session_id;
    run_.topic = command_.topic;
    run_.reply_to = reply_to_;
    run_.created_at = run_.ready_at = context_.now;
    run_.age_created_at = context_.age_now;
    run_.model = command_.terms.model;
    run_.provider = command_.terms.provider;
    run_.instructions = command_.terms.instructions;
    run_.max_steps = command_.terms.max_steps;
    return {};
  }

  // Appends the input, and gives the session its counters.
  Result<RunInput> append_input(Session& session) {
    RunInput input{.topic = command_.topic, .reply_to = reply_to_};
    if (command_.input.empty()) return input;
    const std::size_t before = builder_.out.events.size();
    TRY(auto appended,
        append_entries(builder_, session, {.topic = command_.topic, .entries = command_.input, .needs_answer = true},
                       lines_, false));
    if (!builder_.out.need) take_counters(builder_, session, before);
    input.ids = std::move(appended.ids);
    for (const transcripts::NewEntry& entry : command_.input) input.texts.push_back(transcripts::said_in(entry));
    return input;
  }

  Result<Decision> start(Session& session) {
    if (asks()) {  // what could not be appended is refused before anybody is asked
      Session tried = session;
      TRY(append_input(tried));
      if (builder_.out.need) return std::move(builder_.out);
      builder_.out = {};
    }
    call_session_start(builder_, session, run_);
    if (is_wanted(context_, state_)) {
      std::string prompt;
      for (const transcripts::NewEntry& entry : command_.input)
        prompt.append(prompt.empty() ? "" : "\n").append(transcripts::said_in(entry));
      if (ask_hooks(builder_, session, prompt_hook(run_, prompt), command_.hooks)) return std::move(builder_.out);
    }
    if (const auto& verdict = command_.hooks.verdict) {
      if (verdict->blocked) return refuse_blocked(session, *verdict);
      run_.additional_context = verdict->context;
    }
    TRY(auto input, append_input(session));
    if (builder_.out.need) return std::move(builder_.out);
    run_.input = std::move(input.ids);
    TRY(hand_over(builder_, session, run_, run_.input));
    if (builder_.out.need) return std::move(builder_.out);
    take_terms(run_, command_.terms, context_);
    choose_model(builder_, session, run_);
    if (keeps_log(context_)) log_run_start(builder_, session, run_, fmt::format("{}", fmt::join(input.texts, "\n")));
    if (builder_.out.need) return std::move(builder_.out);
    start_run(builder_, session, run_);
    answer_run(builder_, session, run_, {.status = 201, .fence = state_.runs.next_fence(session.key())});
    return std::move(builder_.out);
  }

  bool asks() const {
    return command_.hooks.ask && !command_.hooks.verdict && context_.orders.hooks != nullptr &&
           context_.orders.hooks->is_waited_for(state_.id(), prompt_event);
  }

  Decision refuse_blocked(Session& session, const runs::HookVerdict& verdict) {
    const std::string why = fmt::format("a hook has blocked the prompt: {}", verdict.reason);
    tell_refused(builder_, session, run_, Code::hook_blocked, why);
    answer_refusal(builder_, Code::hook_blocked, why, command_.instance, command_.request_id,
                   ",\"reason\":" + json::quote(verdict.reason));
    return std::move(builder_.out);
  }

  Result<Decision> wait(Session& session) {
    runs::QueueRules rules = runs::queue_rules(json::Index(*session.entry_with_old_counters()));
    if (!command_.when_busy.empty()) rules.mode = *runs::mode_when_busy(command_.when_busy);
    const bool is_held = takeover_of(state_, session) != nullptr;
    if (is_held) {  // it waits for the hand-back, and pushes nothing else out
      rules.drop = runs::QueueDrop::newest;
      if (rules.mode != runs::QueueMode::collect) rules.mode = runs::QueueMode::followup;
    }
    if (rules.mode == runs::QueueMode::reject) {
      if (runs_ != nullptr && runs_->active) return busy(session, runs_->active->id);
      if (!command_.asked_about.empty()) return busy(session, command_.asked_about);
      rules.mode = runs::QueueMode::followup;
    }
    if (admit(runs_, rules, std::max<std::size_t>(command_.input.size(), 1)).refused)
      return fail(Code::queue_full, fmt::format("the queue of {} is full (queueCap {})", session.key(), rules.cap));
    TRY(const auto input, append_input(session));
    if (builder_.out.need) return std::move(builder_.out);
    Placed placed = place_input(builder_, session, runs_, rules, input, std::move(run_));
    if (builder_.out.need) return std::move(builder_.out);
    placed.run.input.insert(placed.run.input.begin(), placed.before.begin(), placed.before.end());
    answer_run(builder_, session, placed.run,
               {.status = 202,
                .position = placed.position,
                .is_held = is_held,
                .steered = placed.steered ? input.ids : std::vector<std::string>()});
    return std::move(builder_.out);
  }

  const AgentState& state_;
  const StartRun& command_;
  const Context& context_;
  const FetchedLines& lines_;
  DecisionBuilder builder_;
  const SessionRuns* runs_ = nullptr;
  Run run_{};
  std::string reply_to_{};  // raw JSON object; empty: none
};

// The entry that tells the model which inputs were dropped.
transcripts::NewEntry entry_of(const runs::Overflow& overflow) {
  transcripts::NewEntry entry{.type = "message", .role = "user", .stamp = true};
  json::ObjectWriter message;
  message.string("role", "user");
  message.string("content", overflow.text());
  message.boolean("synthetic", true);
  message.raw("dropped", json::array_of(overflow.entry_ids()));
  entry.body = message.text();
  return entry;
}

}  // namespace

runs::ModelChoice model_of_next_run(const Session& session, const std::string& agent, const runs::Settings& settings,
                                    runs::ModelNames request) {
  const auto of_agent = settings.agents.find(agent);
  return runs::choose_model({.request = std::move(request),
                             .session = runs::model_of_entry(json::Index(*session.entry_with_old_counters())),
                             .agent = of_agent == settings.agents.end() ? runs::ModelNames{} : of_agent->second,
                             .defaults = settings.model});
}

Result<Decision> decide(const AgentState& state, const StartRun& command, const Context& context,
                        const FetchedLines& lines) {
  return RunStart(state, command, context, lines).decide();
}

Result<Decision> decide(const AgentState& state, const ClaimRun& command, const Context& context,
                        const FetchedLines& lines) {
  DecisionBuilder builder(state, context);
  builder.out.status = 204;
  const Session* there = state.find_key(command.target.key);
  const SessionRuns* runs = there == nullptr ? nullptr : state.runs.find(there->key());
  const bool is_next = runs != nullptr && runs->may_start() && runs->queued.front().id == command.run_id;
  if (!is_next || there->archived_at) return std::move(builder.out);
  Session session = *there;
  Run run = runs->queued.front();
  if (const auto cap =
          cap_reached(session, json::Index(*session.entry_with_old_counters()), state.id(), *context.rules)) {
    run.stop_reason = "error";
    end_queued(builder, session, {run}, RunStatus::failed, error_json(name(cap->code), cap->why));
    return std::move(builder.out);
  }
  const bool is_told = !command.hooks.verdict && is_wanted(context, state);
  const auto prompt = is_told ? prompt_of(builder, session, run, lines) : std::optional<std::string>("");
  if (!prompt) return std::move(builder.out);
  call_session_start(builder, session, run);
  if (is_told && ask_hooks(builder, session, prompt_hook(run, *prompt), command.hooks)) return std::move(builder.out);
  if (const auto& verdict = command.hooks.verdict) {
    if (verdict->blocked) {
      run.stop_reason = "error";
      end_queued(builder, session, {run}, RunStatus::failed, error_json("hook_blocked", verdict->reason));
      return std::move(builder.out);
    }
    run.additional_context = verdict->context;
  }
  const runs::Overflow* overflow = runs->overflow_for(run);
  if (overflow != nullptr) {
    const std::size_t before = builder.out.events.size();
    TRY(auto appended,
        append_entries(builder, session, {.topic = run.topic, .entries = {entry_of(*overflow)}}, lines, false));
    if (builder.out.need) return std::move(builder.out);
    take_counters(builder, session, before);
    run.input.insert(run.input.begin(), appended.ids.front());
  }
  TRY(hand_over(builder, session, run, run.input));
  if (builder.out.need) return std::move(builder.out);
  take_terms(run, command.terms, context);
  choose_model(builder, session, run);
  if (keeps_log(context)) {
    const auto logged = prompt_of(builder, session, run, lines);
    if (!logged) return std::move(builder.out);
    log_run_start(builder, session, run, *logged);
    if (builder.out.need) return std::move(builder.out);
  }
  start_run(builder, session, run, overflow != nullptr);
  answer_run(builder, session, run, {.fence = state.runs.next_fence(session.key())});
  return std::move(builder.out);
}

}  // namespace sessiond::decide
