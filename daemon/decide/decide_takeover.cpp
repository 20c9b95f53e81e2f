// Decisions about a person who takes over from the agent, and hands back.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "daemon/decide/run_queue.hpp"
#include "daemon/decide/takeover_commands.hpp"
#include "daemon/decide/takeover_steps.hpp"
#include "policy/runs/queue.hpp"
#include "store/try.hpp"

namespace sessiond::decide {
namespace {

std::string waiting_json(const SessionRuns* runs) {
  std::string list = "[";
  const auto add = [&list](const std::string& id, const std::optional<std::string>& topic, std::int64_t since) {
    json::ObjectWriter one;
    one.string("id", id);
    one.string_or_null("topic", topic);
    one.integer("since", since);
    list.append(list.size() > 1 ? "," : "").append(one.text());
  };
  if (runs != nullptr)
    for (const Run& run : runs->queued)
      for (const std::string& id : run.input) add(id, run.topic, run.created_at);
  if (runs != nullptr && runs->takeover)
    for (const HeldMessage& held : runs->takeover->waiting) add(held.entry_id, held.topic, held.since);
  return list + "]";
}

class HandBackDecision {
 public:
  HandBackDecision(const AgentState& state, const HandBack& command, const Context& context, const FetchedLines& lines)
      : state_(state), command_(command), context_(context), lines_(lines), builder_(state, context) {}

  Result<Decision> decide() {
    TRY(const auto there, resolve(state_, command_.target));
    Session session = *there;
    session_ = there;
    builder_.out.status = 204;
    const Takeover* takeover = takeover_of(state_, session);
    if (takeover == nullptr) return std::move(builder_.out);
    const bool is_persons = command_.reason == HandBack::Reason::person;
    if (is_persons && !command_.force && !speaks_in(builder_, *takeover)) return taken_over(session, *takeover);
    takeover_ = *takeover;
    left_ = *state_.runs.find(session.key());
    left_.takeover.reset();
    if (!look_up()) return std::move(builder_.out);
    TRY(end_superseded(session));
    if (builder_.out.need) return std::move(builder_.out);
    sort_queued();
    std::vector<HeldMessage> held;
    for (HeldMessage& each : takeover_.waiting) {
      const bool is_settled = is_answered(address_of(each), each.seq);
      (is_settled ? answered_ : waiting_).push_back(each.entry_id);
      if (!is_settled) held.push_back(std::move(each));
    }
    takeover_.waiting = std::move(held);
    if (!command_.dry_run) {
      TRY(commit(session));
      if (builder_.out.need) return std::move(builder_.out);
    }
    return answer();
  }

 private:
  // Returns whether a question counts as answered by the person.
  bool is_answered(const runs::Address& address, std::uint64_t seq) const {
    if (command_.answered == HandBack::Answered::all) return true;
    return command_.answered == HandBack::Answered::seen && takeover_.is_answered(address, seq);
  }
  bool is_answered_of(const Run& run, std::uint64_t seq) const {
    const std::string at = reply_to_in(*session_, run.reply_to);
    return is_answered({.reply_to = at, .topic = run.topic ? std::string_view(*run.topic) : std::string_view()}, seq);
  }
  bool is_answered_of(const Run& run, const std::string& id) const {
    const auto line = lines_.find(id);
    return is_answered_of(run, line == lines_.end() || line->second.line.empty() ? UINT64_MAX : line->second.seq);
  }

  // Finds where the inputs of runs stand in their transcripts. False: builder.out.need asks for those of one.
  bool look_up() {
    std::optional<Need> need;
    const auto add = [&](const Run& run, const std::string& id) {
      const std::string file = AgentState::file_of(*session_, run.topic);
      if (lines_.contains(id) || (need && need->file != file)) return;
      if (!need) need = Need{Need::What::lines, file};
      need->ids.push_back(id);
    };
    const auto add_inputs = [&](const Run& run) {
      if (command_.answered != HandBack::Answered::seen || !is_answered_of(run, 0)) return;
      for (const std::string& id : run.input) add(run, id);
    };
    std::ranges::for_each(left_.queued, add_inputs);
    if (left_.active && left_.active->superseded) {
      add_inputs(*left_.active);
      if (is_answered_of(*left_.active, 0))
        for (const Steered& steered : left_.steered) add(*left_.active, steered.entry_id);
    }
    builder_.out.need = std::move(need);
    return !builder_.out.need;
  }

  // Ends the run that a person's word has stopped. What it was asked is then decided like all that waits.
  Result<void> end_superseded(Session& session) {
    if (!left_.active || !left_.active->superseded) return {};
    Run run = *left_.active;
    std::optional<Run> again = waits_again(builder_, left_, run, true);
    if (!command_.dry_run) {
      const auto waits = [&](const std::string& id) { return !is_answered_of(*again, id); };
      RunEnd end{.stop_reason = "aborted", .error = error_json("taken_over", "a person has spoken in its place")};
      end.retried = again && (again->input.empty() || std::ranges::any_of(again->input, waits));
      for (const Steered& steered : left_.steered) end.steered.push_back(steered.entry_id);
      TRY(end_active(builder_, session, run, std::move(end), lines_));
      if (builder_.out.need) return {};
    }
    left_.active.reset();
    if (again) put_in_queue(left_.queued, *std::move(again));
    return {};
  }

  // Takes what the person has answered out of the runs that wait.
  void sort_queued() {
    std::deque<Run> queued;
    for (Run& run : left_.queued) {
      Run left = run;
      left.texts.clear();  // the book has those that it had
      left.input.clear();
      for (const std::string& id : run.input) (is_answered_of(run, id) ? answered_ : left.input).push_back(id);
      waiting_.insert(waiting_.end(), left.input.begin(), left.input.end());
      const bool has_work = run.input.empty() ? command_.answered != HandBack::Answered::all : !left.input.empty();
      if (has_work)
        queued.push_back(std::move(left));
      else
        ended_.push_back(std::move(run));
    }
    left_.queued = std::move(queued);
  }

  Result<void> commit(Session& session) {
    TRY(append_note(session));
    if (builder_.out.need) return {};
    std::erase_if(ended_, [this](const Run& run) { return state_run(run.id) == nullptr; });  // never was in the queue
    end_queued(builder_, session, ended_, RunStatus::dropped,
               error_json("answered_by_person", fmt::format("{} has answered", takeover_.name)));
    if (builder_.out.need) return {};
    const auto reason = command_.reason == HandBack::Reason::person ? "person" : "expired";
    clear_needs(session);
    emit_handback(builder_, session, takeover_, reason, answered_, waiting_);
    // Runs that waited before the takeover are as old as they were when it began.
    for (Run& run : left_.queued) {
      const std::int64_t stood = context_.age_now - std::max(takeover_.age_begun, run.age_created_at);
      run.created_at += stood;
      if (run.age_created_at != 0) run.age_created_at += stood;
      run.ready_at = context_.now;
      if (!note_id_.empty() && &run == &left_.queued.front()) run.input.insert(run.input.begin(), note_id_);
      emit_run(builder_, session, journal::EventType::run_queued, {.run = run});
    }
    if (!context_.rules->runs.on_inbound) return {};
    std::string note = left_.queued.empty() ? note_id_ : "";
    for (Run& run : runs_of_held(builder_, session, left_.queued, takeover_.waiting)) {
      if (!note.empty()) {
        run.input.insert(run.input.begin(), std::exchange(note, ""));
        run.texts.insert(run.texts.begin(), "");
      }
      emit_run(builder_, session, journal::EventType::run_queued, {.run = run});
      put_in_queue(left_.queued, std::move(run));
    }
    return {};
  }

  const Run* state_run(const std::string& id) const {
    const SessionRuns* runs = state_.runs.find(builder_.state().find(command_.target.key)->key());
    return runs->find_queued(id);
  }

  // Appends what the person tells the agent, in the topic of the run that begins next.
  Result<void> append_note(Session& session) {
    const std::optional<std::string> topic = !left_.queued.empty()        ? left_.queued.front().topic
                                             : !takeover_.waiting.empty() ? takeover_.waiting.front().topic
                                             : !takeover_.words.empty()   ? takeover_.words.back().topic
                                                                          : std::nullopt;
    json::ObjectWriter data;
    data.string("name", takeover_.name);
    data.string("reason", command_.reason == HandBack::Reason::person ? "person" : "expired");
    data.integer("answered", static_cast<std::int64_t>(answered_.size()));
    data.integer("waiting", static_cast<std::int64_t>(waiting_.size()));
    AppendRequest append{
        .topic = topic, .entries = {transcripts::custom_entry("sessiond.handback", data.text())}, .by_daemon = true};
    if (!command_.note.empty()) {
      transcripts::NewEntry note{.type = "message", .role = "user", .stamp = true};
      json::ObjectWriter message;
      message.string("role", "user");
      message.string("content", fmt::format("[note by {}] {}", takeover_.name, command_.note));
      message.boolean("synthetic", true);
      note.body = message.text();
      append.entries.push_back(std::move(note));
    }
    const std::size_t before = builder_.out.events.size();
    if (command_.reason == HandBack::Reason::expired) {  // nobody could try again
      append_if_possible(builder_, session, append, lines_);
      return {};
    }
    TRY(const auto appended, append_entries(builder_, session, append, lines_, false));
    if (builder_.out.need) return {};
    take_counters(builder_, session, before);
    if (!command_.note.empty()) note_id_ = appended.ids.back();
    return {};
  }

  // With `all`, nothing in the session waits for an answer any more.
  void clear_needs(Session& session) {
    if (command_.answered != HandBack::Answered::all || session.needs.empty()) return;
    json::Edit edit;
    edit.put_int("updatedAt", moved_to(session, context_.now));
    edit.remove("needs");
    builder_.update(session, std::move(edit));
  }

  Result<Decision> answer() {
    std::vector<std::string> runs;
    if (!command_.dry_run)
      for (const Run& run : left_.queued) runs.push_back(run.id);
    json::ObjectWriter out(builder_.out.body);
    out.raw("answered", json::array_of(answered_));
    out.raw("waiting", json::array_of(waiting_));
    out.raw("runs", json::array_of(runs));
    out.string("asOf", builder_.as_of());
    out.close();
    builder_.out.status = 200;
    return std::move(builder_.out);
  }

  const AgentState& state_;
  const HandBack& command_;
  const Context& context_;
  const FetchedLines& lines_;
  DecisionBuilder builder_;
  const Session* session_ = nullptr;
  Takeover takeover_{};
  SessionRuns left_{};  // the session's, as this leaves them
  std::vector<Run> ended_{};
  std::vector<std::string> answered_{}, waiting_{};
  std::string note_id_{};  // empty: there is no note
};

}  // namespace

Result<Decision> decide(const AgentState& state, const TakeOver& command, const Context& context) {
  DecisionBuilder builder(state, context);
  TRY(const auto there, resolve_open(state, command.target));
  Session session = *there;
  TRY(const Takeover takeover,
      take_over(builder, session, {.name = command.name, .for_ms = command.for_ms, .force = command.force}));
  if (builder.out.need) return std::move(builder.out);
  const SessionRuns* runs = state.runs.find(session.key());
  const bool stops = command.stop && runs != nullptr && runs->active;
  if (stops) supersede(builder, session);
  json::ObjectWriter out(builder.out.body);
  out.raw("takeover", takeover_json(takeover));
  out.string_or_null("stopped", stops ? std::optional(runs->active->id) : std::nullopt);
  out.raw("waiting", waiting_json(runs));
  out.string("asOf", builder.as_of());
  out.close();
  return std::move(builder.out);
}

Result<Decision> decide(const AgentState& state, const HandBack& command, const Context& context,
                        const FetchedLines& lines) {
  return HandBackDecision(state, command, context, lines).decide();
}

}  // namespace sessiond::decide
