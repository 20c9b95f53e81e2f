#include "daemon/decide/takeover_steps.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "daemon/decide/inbound_run.hpp"
#include "daemon/decide/needs.hpp"
#include "store/try.hpp"

namespace sessiond::decide {
namespace {

constexpr std::int64_t renewed_every_ms = 60'000;  // by the person's words, in the journal
constexpr std::string_view send_denied = R"("deny")";

transcripts::NewEntry note_of_takeover(const Takeover& takeover) {
  return transcripts::custom_entry("sessiond.takeover", takeover_json(takeover));
}

void set_policy(json::Edit& edit, const std::string& policy) {
  if (policy.empty())
    edit.remove("sendPolicy");
  else
    edit.put("sendPolicy", policy);
}

// In a shared store other programs obey the entry, which then lets nobody answer.
void silence_others(DecisionBuilder& builder, Session& session, Takeover& takeover) {
  if (!builder.context().rules->shared || !builder.context().durable || takeover.policy_before) return;
  const std::string_view before = json::find(*session.entry(), "sendPolicy").value_or("");
  takeover.policy_before = before == "null" ? "" : before;
  if (takeover.policy_before == send_denied) return;
  json::Edit edit;
  edit.put_int("updatedAt", moved_to(session, builder.context().now));
  set_policy(edit, std::string(send_denied));
  builder.update(session, std::move(edit));
}

void let_others_speak(DecisionBuilder& builder, Session& session, const Takeover& takeover) {
  if (!takeover.policy_before || takeover.policy_before == send_denied) return;
  if (json::find(*session.entry(), "sendPolicy") != send_denied) return;  // it was changed since
  json::Edit edit;
  edit.put_int("updatedAt", moved_to(session, builder.context().now));
  set_policy(edit, *takeover.policy_before);
  builder.update(session, std::move(edit));
}

void emit_takeover(DecisionBuilder& builder, const Session& session, TakeoverTold told) {
  told.takeover.waiting.clear();
  told.takeover.words.clear();
  builder.emit(journal::EventType::session_takeover, session, std::move(told));
}

void begin_time_anew(const DecisionBuilder& builder, Takeover& takeover) {
  takeover.until = builder.context().now + takeover.for_ms;
  takeover.age_until = builder.context().age_now + takeover.for_ms;
}

// Returns what waits in a session after a word of the person, which stands behind all messages of its topic.
std::string needs_after(const Session& session, const Takeover& takeover, const PersonsWord& word) {
  if (json::kind(session.needs) != json::Kind::array) return session.needs;
  Takeover after = takeover;
  PersonsWord last = word;
  if (last.seen_seq == 0) last.seen_seq = UINT64_MAX;
  after.say(std::move(last));
  const auto waits = [&](const HeldMessage& held) {
    return held.topic == word.topic && !after.is_answered(address_of(held), held.seq);
  };
  for (const std::string_view need : json::elements(session.needs)) {
    if (json::kind(need) != json::Kind::object || json::string_at(need, "topic") != word.topic) continue;
    const auto seq = static_cast<std::uint64_t>(json::int_at(need, "seq").value_or(0));
    if (word.seen_seq != 0 && seq >= word.seen_seq) return session.needs;
    const auto next = std::ranges::find_if(after.waiting, waits);
    if (next != after.waiting.end() && next->seq == seq) return session.needs;
    const std::string rest = without_need(session.needs, word.topic);
    return next == after.waiting.end() ? rest : with_need(rest, word.topic, next->seq, next->since);
  }
  return session.needs;
}

}  // namespace

const Takeover* takeover_of(const AgentState& state, const Session& session) {
  const SessionRuns* runs = state.runs.find(session.key());
  return runs == nullptr || !runs->takeover ? nullptr : &*runs->takeover;
}

std::string shown_takeover(const AgentState& state, const Session& session) {
  const Takeover* takeover = takeover_of(state, session);
  return takeover == nullptr ? "" : takeover_json(*takeover);
}

std::string entry_before_takeover(const AgentState& state, const Session& session, const std::string& entry) {
  const Takeover* takeover = takeover_of(state, session);
  if (takeover == nullptr || !takeover->policy_before || json::find(entry, "sendPolicy") != send_denied) return entry;
  json::Edit before;
  set_policy(before, *takeover->policy_before);
  return json::apply(entry, before);
}

std::unexpected<Problem> taken_over(const Session& session, const Takeover& takeover) {
  return std::unexpected(Problem{
      .code = Code::taken_over,
      .detail = fmt::format("{} speaks in {} in place of its agent, until a hand-back", takeover.name, session.key()),
      .members = {{"name", json::quote(takeover.name)}, {"until", std::to_string(takeover.until)}}});
}

bool speaks_in(const DecisionBuilder& builder, const Takeover& takeover) {
  return builder.context().run == nullptr && !takeover.token.empty() && takeover.token == builder.context().actor;
}

Result<void> check_agent_may_speak(const AgentState& state, const Session& session, bool under_run) {
  const Takeover* takeover = takeover_of(state, session);
  if (takeover == nullptr) return {};
  const SessionRuns& runs = *state.runs.find(session.key());
  const bool is_of_run = under_run && runs.active && !runs.active->superseded;
  return is_of_run ? Result<void>{} : taken_over(session, *takeover);
}

bool is_of(const DecisionBuilder& builder, const Takeover& takeover, const TakeoverTerms& terms) {
  const std::string_view actor = builder.context().actor;
  return takeover.token == (terms.by_hand ? "" : actor) && takeover.name == (terms.name.empty() ? actor : terms.name);
}

Result<Takeover> take_over(DecisionBuilder& builder, Session& session, const TakeoverTerms& terms) {
  const Context& context = builder.context();
  const Takeover* there = takeover_of(builder.state(), session);
  const bool is_own = there != nullptr && is_of(builder, *there, terms);
  if (there != nullptr && !is_own && !terms.force) return taken_over(session, *there);
  Takeover takeover = there != nullptr ? *there : Takeover{.age_begun = context.age_now};
  if (!is_own) takeover.since = context.now;
  takeover.token = terms.by_hand ? "" : context.actor;
  takeover.name = terms.name.empty() ? context.actor : terms.name;
  if (terms.for_ms != 0)
    takeover.for_ms = terms.for_ms;
  else if (!is_own)
    takeover.for_ms = context.rules->runs.takeover_ms;
  begin_time_anew(builder, takeover);
  silence_others(builder, session, takeover);
  if (!is_own) {
    const std::size_t before = builder.out.events.size();
    TRY(append_entries(builder, session, {.entries = {note_of_takeover(takeover)}, .by_daemon = true}, {},
                       terms.fresh));
    if (builder.out.need) return takeover;
    take_counters(builder, session, before);
  }
  emit_takeover(builder, session, {.takeover = takeover, .renewed = is_own, .forced = !is_own && there != nullptr});
  return takeover;
}

void supersede(DecisionBuilder& builder, Session& session) {
  const SessionRuns* runs = builder.state().runs.find(session.key());
  if (runs == nullptr || !runs->active || runs->active->superseded) return;
  Run run = *runs->active;
  run.superseded = true;
  run.is_settled = run.is_settled || run.status == RunStatus::aborting;
  stop_run(builder, session, run, "takeover");
}

void say_as_person(DecisionBuilder& builder, Session& session, const Takeover& takeover, SaidByPerson said,
                   AppendRequest& append) {
  const PersonsWord word{{.reply_to = std::move(said.reply_to), .seen_seq = said.seen_seq ? *said.seen_seq + 1 : 0},
                         append.topic};
  const SessionRuns* runs = said.fresh ? nullptr : builder.state().runs.find(session.key());
  if (runs != nullptr && runs->active) {
    const std::string at = reply_to_in(session, runs->active->reply_to);
    const std::string_view topic = word.topic ? std::string_view(*word.topic) : std::string_view();
    if (runs->active->topic == word.topic && runs::is_same({at, topic}, {word.reply_to, topic}))
      supersede(builder, session);
  }
  Takeover renewed = takeover;
  begin_time_anew(builder, renewed);
  if (renewed.until - takeover.until >= std::min(renewed_every_ms, takeover.for_ms / 4))
    emit_takeover(builder, session, {.takeover = renewed, .renewed = true});
  append.needs_after = needs_after(session, takeover, word);
  append.told.word = word;
}

std::string reply_to_of(const delivery::Delivery& address) {
  if (!address.channel || !address.to) return {};
  return reply_address(*address.channel, *address.to, address.account_id.value_or(""), address.thread_id.value_or(""));
}

std::string reply_to_in(const Session& session, const std::string& reply_to) {
  if (!reply_to.empty()) return reply_to;
  return reply_to_of(delivery::read_delivery(json::Index(*session.entry_with_old_counters())));
}

void hold_message(DecisionBuilder& builder, const Session& session, const HeldMessage& message) {
  builder.emit(journal::EventType::message_held, session, MessageHeld{message}, message.topic);
}

void emit_handback(DecisionBuilder& builder, Session& session, const Takeover& takeover, std::string_view reason,
                   const std::vector<std::string>& answered, const std::vector<std::string>& waiting) {
  let_others_speak(builder, session, takeover);
  builder.emit(
      journal::EventType::session_handback, session,
      HandbackTold{.name = takeover.name, .reason = std::string(reason), .answered = answered, .waiting = waiting});
}

void end_takeover(DecisionBuilder& builder, Session& session) {
  if (const Takeover* takeover = takeover_of(builder.state(), session))
    emit_handback(builder, session, *takeover, "ended", {}, {});
}

}  // namespace sessiond::decide
