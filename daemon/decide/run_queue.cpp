#include "daemon/decide/run_queue.hpp"
#include "policy/overflow.hpp"

#include <algorithm>
#include <ranges>
#include <span>
#include <tuple>

namespace sessiond::decide {
namespace {

constexpr std::size_t most_steered = 100;  // messages that a runner has not confirmed

std::size_t inputs_of(const Run& run) { return std::max<std::size_t>(run.input.size(), 1); }

std::size_t waiting_in(const SessionRuns* runs) {
  if (runs == nullptr) return 0;
  std::size_t waiting = runs->steered.size();
  for (const Run& run : runs->queued)
    if (run.origin != runs::Origin::retry) waiting += inputs_of(run);
  return waiting;
}

runs::Address address_of(const RunInput& input) {
  return {.reply_to = input.reply_to, .topic = input.topic ? std::string_view(*input.topic) : std::string_view{}};
}

// Tells whether an input joins a waiting run.
bool joins(const Run& waiting, runs::QueueMode mode, const Run& input) {
  return runs::joins({.origin = waiting.origin,
                      .mode = waiting.collects ? runs::QueueMode::collect : runs::QueueMode::followup,
                      .address = address_of(waiting)},
                     mode, address_of(input));
}

// Tells whether the active run can be told of an input. When its runner has not confirmed very much, further input
// waits in a run of its own.
bool steers(const SessionRuns& runs, const RunInput& input) {
  if (!runs.active || runs.active->status != RunStatus::running || input.ids.empty()) return false;
  if (!is_same(address_of(*runs.active), address_of(input))) return false;
  std::size_t bytes = 0;
  for (const Steered& each : runs.steered) bytes += each.text.size();
  for (const std::string& text : input.texts) bytes += text.size();
  return runs.steered.size() + input.ids.size() <= most_steered && bytes <= most_steered_bytes;
}

// Returns whether a run that waits stays as it is, but for its inputs, when this run joins it.
bool has_terms_of(const Run& waiting, const Run& run) {
  const auto terms = [](const Run& each) {
    return std::tie(each.session_id, each.topic, each.status, each.attempt, each.retry_of, each.reply_to, each.origin,
                    each.collects, each.max_steps, each.lease_ms, each.idle_timeout_ms, each.additional_context,
                    static_cast<const RunModel&>(each));
  };
  return terms(waiting) == terms(run);
}

// The queue as this decision leaves it. Each change is told by an event.
class Queue {
 public:
  Queue(DecisionBuilder& builder, Session& session, const SessionRuns* runs) : builder_(builder), session_(session) {
    if (runs == nullptr) return;
    for (const Run& run : runs->queued) queued_.push_back(&run);
  }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  // Drops the oldest inputs; those that interrupt go last. A retry stays. `counted`: the next run is told of them.
  void drop(std::int64_t inputs, bool counted) {
    for (; inputs > 0; --inputs) {
      const auto first = [this](auto... origins) {
        return std::ranges::find_if(queued_, [=](const Run* run) { return ((run->origin != origins) && ...); });
      };
      auto oldest = first(runs::Origin::retry, runs::Origin::interrupt);
      if (oldest == queued_.end()) oldest = first(runs::Origin::retry);
      if (oldest == queued_.end()) return;
      const Run& run = **oldest;
      if (counted) count_dropped(run);
      if (lost_ + 1 < inputs_of(run)) {
        shortened_ = &run;
        ++lost_;
        continue;
      }
      end_queued(builder_, session_, {run}, RunStatus::dropped, full_, std::exchange(dropped_, {}));
      queued_.erase(oldest);
      shortened_ = nullptr;
      lost_ = 0;
    }
  }

  // Puts an input into the waiting run that it joins, or in a run of its own.
  Placed put(runs::QueueMode mode, Run run) {
    const auto joined = std::ranges::find_if(queued_, [&](const Run* waiting) { return joins(*waiting, mode, run); });
    const bool is_joined = joined != queued_.end();
    if (shortened_ != nullptr && !(is_joined && *joined == shortened_)) {
      record_lost();
      emit_inputs(*shortened_, without_lost(*shortened_));
    }
    if (is_joined) return join(**joined, static_cast<std::size_t>(joined - queued_.begin()) + 1, std::move(run));
    emit_run(builder_, session_, journal::EventType::run_queued, {.run = run, .overflow = std::exchange(dropped_, {})});
    const auto runs = queued_ | std::views::transform([](const Run* each) -> const Run& { return *each; });
    const std::size_t position = place_in(runs, run) + 1;
    return {.run = std::move(run), .position = position};
  }

 private:
  // Records the inputs that the shortened run has lost: they are words that no run was handed.
  void record_lost() {
    decide::record_lost(builder_, session_, *shortened_, std::span(shortened_->input).first(lost_), full_);
  }
  // However fast more input comes, the run that collects it is handed out then.
  std::int64_t latest_start(std::int64_t first_input) const {
    return first_input + builder_.context().rules->runs.queue_max_wait_ms;
  }
  std::ptrdiff_t lost_by(const Run& run) const { return &run == shortened_ ? static_cast<std::ptrdiff_t>(lost_) : 0; }
  RunInputs without_lost(const Run& run) const {
    RunInputs change = no_change_of(run);
    change.left.assign(run.input.begin(), run.input.begin() + lost_by(run));
    return change;
  }
  void emit_inputs(const Run& run, RunInputs change) {
    change.overflow = std::exchange(dropped_, {});
    builder_.emit(journal::EventType::run_queued, session_, std::move(change), run.topic);
  }

  Placed join(const Run& waiting, std::size_t position, Run run) {
    if (&waiting == shortened_) record_lost();
    run.id = waiting.id;
    run.created_at = waiting.created_at;
    run.age_created_at = waiting.age_created_at;
    run.ready_at = std::min(run.ready_at, latest_start(run.created_at));
    const std::span<const std::string> before(waiting.input.begin() + lost_by(waiting), waiting.input.end());
    Placed placed{.position = position, .before = before};
    if (has_terms_of(waiting, run)) {
      RunInputs change = without_lost(waiting);
      change.joined = run.input;
      change.texts = run.texts;
      change.ready_at = run.ready_at;
      emit_inputs(waiting, std::move(change));
    } else {
      Run whole = run;
      whole.input.insert(whole.input.begin(), before.begin(), before.end());
      emit_run(builder_, session_, journal::EventType::run_queued,  // with the texts of the new inputs
               {.run = std::move(whole), .overflow = std::exchange(dropped_, {})});
    }
    placed.run = std::move(run);
    return placed;
  }

  DecisionBuilder& builder_;
  Session& session_;
  // Notes the input that a run loses next, for the next run that answers there.
  void count_dropped(const Run& run) {
    dropped_.push_back({.entry_id = lost_ < run.input.size() ? run.input[lost_] : "",
                        .text = lost_ < run.texts.size() ? run.texts[lost_] : "",
                        .of = runs::Overflow::Of{.reply_to = run.reply_to, .topic = run.topic.value_or("")}});
  }

  const std::string full_ = error_json("queue_full", "newer messages took its place");
  std::vector<const Run*> queued_{};
  std::vector<DroppedInput> dropped_{};  // of which the next event tells
  const Run* shortened_ = nullptr;       // the one of queued_ that has lost inputs, and is not told of yet; null: none
  std::size_t lost_ = 0;                 // how many: its first ones
};

// Hands the messages to the active run.
void inject(DecisionBuilder& builder, const Session& session, const Run& active, const RunInput& input) {
  for (std::size_t i = 0; i < input.ids.size(); ++i) {
    const Steered steered{.entry_id = input.ids[i], .text = input.texts[i]};
    builder.emit(journal::EventType::directive_injected, session,
                 DirectiveInjected{.run_id = active.id, .steered = steered}, active.topic);
  }
}

}  // namespace

runs::Admission admit(const SessionRuns* runs, const runs::QueueRules& rules, std::size_t arriving) {
  return runs::admit(rules, static_cast<std::int64_t>(waiting_in(runs)), static_cast<std::int64_t>(arriving));
}

std::vector<Run> runs_of_held(const DecisionBuilder& builder, const Session& session, const std::deque<Run>& queued,
                              const std::vector<HeldMessage>& held) {
  const runs::QueueMode mode = runs::queue_rules(json::Index(*session.entry_with_old_counters())).mode;
  std::vector<Run> made;
  for (const HeldMessage& message : held) {
    Run run;
    run.topic = message.topic;
    run.reply_to = message.reply_to;
    const auto joined = [&](const Run& waiting) { return joins(waiting, mode, run); };
    auto to = std::ranges::find_if(made, joined);
    if (to == made.end()) {
      if (const auto there = std::ranges::find_if(queued, joined); there != queued.end()) {
        run = *there;
        run.texts.clear();  // the book has those that it had
      } else {
        run.id = builder.context().ids->uuid();
        run.session_id = session.session_id;
        run.created_at = builder.context().now;
        run.age_created_at = builder.context().age_now;
        run.collects = mode == runs::QueueMode::collect;
      }
      run.ready_at = builder.context().now;
      to = made.insert(made.end(), std::move(run));
    }
    to->input.push_back(message.entry_id);
    to->texts.push_back(message.text);
  }
  return made;
}

Placed place_input(DecisionBuilder& builder, Session& session, const SessionRuns* runs, const runs::QueueRules& rules,
                   const RunInput& input, Run run) {
  using runs::BusyStep;
  const Run* active = runs != nullptr && runs->active ? &*runs->active : nullptr;
  const bool can_steer = runs != nullptr && steers(*runs, input);
  const BusyStep step = runs::when_busy(rules.mode, can_steer);
  const bool injects = step == BusyStep::steer || step == BusyStep::steer_and_wait;
  if (injects) inject(builder, session, *active, input);
  if (step == BusyStep::steer) return {.run = *active, .steered = true};
  if (step == BusyStep::interrupt && active != nullptr && active->status == RunStatus::running) {
    Run aborting = *active;
    stop_run(builder, session, aborting, "interrupt");
  }
  Queue queue(builder, session, runs);
  const runs::Admission admission = admit(runs, rules, std::max<std::size_t>(input.ids.size(), 1));
  queue.drop(admission.dropped, admission.counted);

  const std::int64_t now = builder.context().now;
  run.session_id = session.session_id;
  run.topic = input.topic;
  run.reply_to = input.reply_to;
  run.created_at = now;
  run.age_created_at = builder.context().age_now;
  const bool is_idle = active == nullptr && (runs == nullptr || runs->queued.empty());
  const std::int64_t most = builder.context().rules->runs.queue_max_wait_ms;
  run.ready_at = is_idle ? now : now + std::min(runs::debounce_of(rules, rules.mode), most);
  run.collects = rules.mode == runs::QueueMode::collect;
  run.origin = step == BusyStep::interrupt ? runs::Origin::interrupt : runs::Origin::queued;
  run.input = input.ids;
  for (const std::string& text : input.texts) run.texts.push_back(policy::overflow_line(text));
  Placed placed = queue.put(rules.mode, std::move(run));
  placed.steered = injects;
  return placed;
}

}  // namespace sessiond::decide
