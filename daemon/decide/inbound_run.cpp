#include "daemon/decide/inbound_run.hpp"

#include <fmt/format.h>

#include "daemon/decide/needs.hpp"
#include "daemon/decide/steps.hpp"
#include "daemon/decide/takeover_steps.hpp"
#include "policy/activation.hpp"
#include "policy/overflow.hpp"
#include "store/try.hpp"

namespace sessiond::decide {

std::string reply_address(std::string_view channel, std::string_view peer, std::string_view account_id,
                          std::string_view thread_id) {
  json::ObjectWriter writer;
  writer.string("channel", channel);
  writer.string("to", peer);
  if (!account_id.empty()) writer.string("accountId", account_id);
  if (!thread_id.empty()) writer.raw("threadId", thread_id);
  return writer.text();
}

std::string place_inbound_run(DecisionBuilder& builder, Session& session, const SessionRuns* runs,
                              const RunInput& input, std::uint64_t seq) {
  const auto refused = [](Code code) { return fmt::format(R"({{"refused":"{}"}})", name(code)); };
  if (takeover_of(builder.state(), session) != nullptr) {
    hold_message(builder, session,
                 {.entry_id = input.ids.front(),
                  .seq = seq,
                  .topic = input.topic,
                  .reply_to = input.reply_to,
                  .since = builder.context().now,
                  .text = policy::overflow_line(input.texts.front())});
    return "null";
  }
  const sessions::RawEntry held = session.entry_with_old_counters();
  const json::Index entry(*held);
  const runs::QueueRules rules = runs::queue_rules(entry);
  Run run;
  run.id = builder.context().ids->uuid();  // that of a run which it joins takes its place
  if (const auto cap = cap_reached(session, entry, builder.state().id(), *builder.context().rules)) {
    tell_refused(builder, session, std::move(run), cap->code, cap->why);
    return refused(cap->code);
  }
  if (admit(runs, rules, 1).refused) return refused(Code::queue_full);
  const Placed placed = place_input(builder, session, runs, rules, input, std::move(run));
  return fmt::format(R"({{"runId":{}}})", json::quote(placed.run.id));
}

Result<LateActivation> activate_late(DecisionBuilder& builder, Session& session, const LateMessage& message) {
  const MessagePlace& place = message.place;
  const sessions::RawEntry held = session.entry_with_old_counters();
  const json::Index entry(*held);
  LateActivation activation;
  json::Edit edit;
  if (policy::owes_intro(entry) && takeover_of(builder.state(), session) == nullptr) {
    activation.system_intro = "true";
    edit.remove(std::string(policy::intro_field));
  }
  edit.put("needs", with_need(session.needs, place.topic, place.seq, builder.context().now));
  TRY(change_entry(builder, session, changes_of(entry, std::move(edit), json::same)));
  const bool is_held = takeover_of(builder.state(), session) != nullptr;
  if (builder.out.need || (!builder.context().rules->runs.on_inbound && !is_held)) return activation;
  activation.run = place_inbound_run(
      builder, session, builder.state().runs.find(session.key()),
      {.ids = {place.entry_id}, .texts = {message.text}, .topic = place.topic, .reply_to = message.reply_to},
      place.seq);
  activation.is_held = is_held;
  return activation;
}

std::string told_after(const LateActivation& activation, std::string_view told) {
  json::Edit edit;
  if (activation.is_held)
    edit.put("held", std::string(held_by_takeover));
  else
    edit.put("activate", "true");
  edit.put("systemIntro", activation.system_intro);
  edit.put("run", activation.run);
  return json::apply(told, edit);
}

}  // namespace sessiond::decide
